package learn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// A payload that a check has just changed is as Go wrote it; history has it as the database does.
func TestANumberIsOfTheSameClassBeforeAndAfterItIsStored(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, number := range []string{
		"7", "-7", "0", "-0", "1.50", "1e2", "1E+2", "-1.50e1", "15e-1", "100e-2", "0.5e3", "0e0", "1e-3", "-0e3", "0.00e1", "12345678901234567890e5",
		"1e199", "1e200", "1e-198", "1e-199", "1e999", "1e-999", strings.Repeat("1", 201),
	} {
		payload := fmt.Sprintf(`{"n": %s}`, number)
		var want string
		err := db.GetContext(t.Context(), &want, "select case when octet_length(p ->> 'n') <= 200 then p ->> 'n' else '' end from (select $1::jsonb as p) as p", payload)
		if err != nil {
			t.Fatal(err)
		}
		if got := classOf(json.RawMessage(payload), "n"); got != want {
			t.Errorf("%s is of class %q, and %q in the database", number, got, want)
		}
	}
}
