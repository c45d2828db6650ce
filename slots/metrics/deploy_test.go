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

// names are those of all metrics.
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

// alerts are those of a file of rules.
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

// Prometheus understands the dashboard's expressions, as rules that record them.
func TestTheExpressionsOfTheDashboardAreUnderstood(t *testing.T) {
	t.Parallel()
	var board struct {
		Panels []struct {
			ID      int
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, deploy+"dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job_exec", ".*")
	n := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			n++
			rules += fmt.Sprintf("  - {record: 'panel:%d:%d', expr: %q}\n", panel.ID, n, fill.Replace(target.Expr))
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
