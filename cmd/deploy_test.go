package cmd

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

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
				understood(t, strings.Fields(command[1]))
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
}
