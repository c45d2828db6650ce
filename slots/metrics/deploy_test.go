package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/slots/metrics"
)

const deploy = "../../deploy/"

var (
	described = regexp.MustCompile(`fqName: "([a-z_]+)"`)
	mentioned = regexp.MustCompile(`prescient_[a-z_]+`)
	suffix    = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// names returns the names of all metrics.
func names() []string {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		metrics.New().Describe(ch)
	}()
	var list []string
	for d := range ch {
		list = append(list, described.FindStringSubmatch(d.String())[1])
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheAlertsAndTheDashboardNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := names()
	for _, file := range []string{"alerts.yaml", "alerts.test.yaml", "dashboard.json"} {
		found := mentioned.FindAllString(string(read(t, deploy+file)), -1)
		if len(found) < 10 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, name := range found {
			if !slices.Contains(known, name) && !slices.Contains(known, suffix.ReplaceAllString(name, "")) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	board := string(read(t, deploy+"dashboard.json"))
	for _, name := range known {
		if !strings.Contains(board, name) && name != "prescient_slot_timestamp_seconds" && name != "prescient_last_run_timestamp_seconds" {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// alerts returns the alerts of a file of rules.
func alerts(t *testing.T) (list []string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	if err := yaml.Unmarshal(read(t, deploy+"alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			list = append(list, rule.Alert)
		}
	}
	return list
}

func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	tests := string(read(t, deploy+"alerts.test.yaml"))
	for _, alert := range alerts(t) {
		if !strings.Contains(tests, `'{alertname="`+alert+`"}'`) {
			t.Errorf("%s fires in no test", alert)
		}
	}
	promtool(t, nil, "check", "rules", deploy+"alerts.yaml")
	promtool(t, nil, "test", "rules", deploy+"alerts.test.yaml")
}

// panel is a panel of the dashboard.
type panel struct {
	ID      int
	Title   string
	Targets []struct{ Expr string }
}

// panels returns the panels of the dashboard, with every store and job chosen.
func panels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal(read(t, deploy+"dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job_exec", ".*", "$store", ".*")
	for _, p := range board.Panels {
		for i := range p.Targets {
			p.Targets[i].Expr = fill.Replace(p.Targets[i].Expr)
		}
	}
	return board.Panels
}

// Prometheus accepts the dashboard's expressions as recording rules.
func TestTheExpressionsOfTheDashboardAreUnderstood(t *testing.T) {
	t.Parallel()
	rules := "groups:\n- name: dashboard\n  rules:\n"
	n := 0
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			n++
			rules += fmt.Sprintf("  - {record: 'panel:%d:%d', expr: %q}\n", panel.ID, n, target.Expr)
			for _, metric := range mentioned.FindAllString(target.Expr, -1) {
				if !strings.Contains(target.Expr, metric+`{store=~".*"`) {
					t.Errorf("%s: %s shows stores that were not chosen", panel.Title, target.Expr)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d expressions", n)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", path)
}

// A store that is not run stays visible beside one that is. Two instances that report one store
// count once.
func TestTheDashboardTellsOfAllStores(t *testing.T) {
	t.Parallel()
	test := `
tests:
  - interval: 1m
    input_series:
      - {series: 'prescient_last_run_success_timestamp_seconds{instance="a",store="north",kind="run"}', values: '0x60'}
      - {series: 'prescient_last_run_success_timestamp_seconds{instance="a",store="south",kind="run"}', values: '0+60x60'}
      - {series: 'prescient_slot_width_seconds{instance="a",store="north"}', values: '900 _x59'} # the database has gone
      - {series: 'prescient_slot_width_seconds{instance="a",store="south"}', values: '86400x60'}
      - {series: 'prescient_unfinished_slots{instance="a",store="north",state="missed"}', values: '4x60'}
      - {series: 'prescient_unfinished_slots{instance="b",store="north",state="missed"}', values: '4x60'}
      - {series: 'prescient_unfinished_slots{instance="a",store="south",state="missed"}', values: '3x60'}
      - {series: 'prescient_overdue_rows{instance="a",store="north",job_exec="x",state="missed"}', values: '40x60'}
      - {series: 'prescient_overdue_rows{instance="a",store="south",job_exec="x",state="missed"}', values: '30x60'}
    promql_expr_test:
`
	for title, value := range map[string]int{"Slots since the last good run": 4, "Missed slots": 7, "Overdue rows": 70} {
		all := panels(t)
		i := slices.IndexFunc(all, func(p panel) bool { return p.Title == title })
		if i < 0 {
			t.Fatal("there is no panel: ", title)
		}
		test += fmt.Sprintf("      - {expr: %q, eval_time: 1h, exp_samples: [{labels: '{}', value: %d}]}\n", all[i].Targets[0].Expr, value)
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(test), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "test", "rules", path)
}
