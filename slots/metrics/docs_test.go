package metrics_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prescient-go/prescient/slots/metrics"
)

const page = "../../docs/metrics.md"

var (
	variable = regexp.MustCompile(`variableLabels: \{([a-z_,]*)\}`)
	help     = regexp.MustCompile(`help: "((?:[^"\\]|\\.)*)"`)
	listed   = regexp.MustCompile("(?m)^\\| `(prescient_[a-z_]+)` .*$")
)

// The table of the page matches, line for line, what the code describes and serves.
func TestTheTableOfThePageMatchesTheMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(1), 1)
	w.enqueue("ok", slot(2), 1)
	w.publish(1)
	w.run(slot(2)) // 1 is missed
	w.now = slot(2).Add(time.Minute)
	families, _ := parse(t, w.scrape())
	served := 0
	for name := range families {
		if strings.HasPrefix(name, "prescient_") {
			served++
		}
	}
	var want []string
	ch := make(chan *prometheus.Desc, 100)
	metrics.New().Describe(ch)
	close(ch)
	for d := range ch {
		name := described.FindStringSubmatch(d.String())[1]
		labels := strings.ReplaceAll(variable.FindStringSubmatch(d.String())[1], ",", ", ")
		family, ok := families[name]
		if !ok {
			t.Fatalf("%s is described, and not served", name)
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(family.GetType().String()), labels,
			help.FindStringSubmatch(d.String())[1]))
	}
	if served != len(want) {
		t.Errorf("%d are served and %d described", served, len(want))
	}
	got := listed.FindAllString(string(read(t, page)), -1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\nthe table should be:\n%s", diff, strings.Join(want, "\n"))
	}
}

func TestPrometheusUnderstandsTheConfigurationOfThePage(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(read(t, page)), -1)
	i := slices.IndexFunc(blocks, func(b []string) bool { return strings.HasPrefix(b[1], "scrape_configs:") })
	if i < 0 {
		t.Fatal("there is none")
	}
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	rules, err := filepath.Abs(deploy + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("rule_files: ["+rules+"]\n"+blocks[i][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "config", "--syntax-only", path)
}
