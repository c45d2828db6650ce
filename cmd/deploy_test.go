package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/config"
)

func TestThisBinaryUnderstandsTheCommandsOfTheMetricsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?m)^    prescient (.+)$").FindAllStringSubmatch(string(text), -1)
	if len(commands) == 0 {
		t.Errorf("%d commands", len(commands))
	}
	for _, command := range commands {
		understood(t, strings.Fields(strings.NewReplacer("{{ with $labels.store }}", "", "{{ . }}{{ end }}", "north").Replace(command[1])))
	}
}

func TestTheSettingsOfTheMetricsPageAreSettings(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(metrics:.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("there are none")
	}
	path := filepath.Join(t.TempDir(), "prescient.yaml")
	if err := os.WriteFile(path, block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESCIENT_CONFIG", path)
	loaded, err := config.Load(nil)
	if err != nil || loaded.Config.Metrics.File == "" || len(loaded.Warnings) > 0 {
		t.Errorf("%+v, %v, %v", loaded.Config.Metrics, loaded.Warnings, err)
	}
}

var inBackquotes = regexp.MustCompile("`prescient ([^`]+)`")

func TestEveryAlertNamesACommandThatThisBinaryUnderstands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations struct{ Summary, Runbook string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			n++
			commands := inBackquotes.FindAllStringSubmatch(rule.Annotations.Runbook, -1)
			if rule.Annotations.Summary == "" || !strings.HasPrefix(rule.Annotations.Runbook, "`prescient ") || len(commands) == 0 {
				t.Errorf("%s does not say what to do: %q", rule.Alert, rule.Annotations.Runbook)
			}
			for _, command := range commands {
				understood(t, strings.Fields(strings.NewReplacer("{{ with $labels.store }}", "", "{{ . }}{{ end }}", "north").Replace(command[1])))
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
}
