package pg

import (
	"fmt"
	"testing"

	"github.com/lib/pq"
)

func TestAURLOfSeveralServersHasAPortForEachAsLibpqTakesIt(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"postgres://u:p%40@a:5432,b:5433/shop?sslmode=disable": "u p@ shop: a 5432 b 5433",
		"postgres://u@a,b:5433/shop":                           "u  shop: a 5432 b 5433",
		"postgres://u@a:5433,b,[::1]/shop":                     "u  shop: a 5433 b 5432 ::1 5432",
		"postgres://u@a,b/shop?port=1,2":                       "u  shop: a 1 b 2",
		"postgres://u@a:5433/shop":                             "u  shop: a 5433",
		"host=a,b port=1,2 user=u dbname=shop":                 "u  shop: a 1 b 2",
	} {
		cfg, err := pq.NewConfig(withPorts(raw))
		got := fmt.Sprintf("%s %s %s: %s %d", cfg.User, cfg.Password, cfg.Database, cfg.Host, cfg.Port)
		for _, more := range cfg.Multi {
			got += fmt.Sprintf(" %s %d", more.Host, more.Port)
		}
		if err != nil || got != want {
			t.Errorf("%s is %q, want %q, %v", raw, got, want, err)
		}
	}
}
