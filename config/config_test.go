package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheDefaultsAreValidAndEveryKeyHasARule(t *testing.T) {
	c := Default()
	keys := map[string]bool{}
	for key := range fields(&c) {
		keys[key] = true
		if rule, ok := rules[key]; !ok || !rule.holds(c) {
			t.Errorf("%s: default breaks its rule, or has none", key)
		}
	}
	diff(t, slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(rules)))
}

func TestEverySettingOfAListHasARuleAndADefaultUnlessItMustBeSet(t *testing.T) {
	diff(t, []string{"name", "url"}, brokenByDefault(t, defaultHTTPJob, httpRules))
	diff(t, []string{"name", "query"}, brokenByDefault(t, defaultSQLJob, sqlRules))
}

// brokenByDefault returns the settings whose rules the defaults of a list break.
func brokenByDefault[T any](t *testing.T, defaults T, rules map[string]rule[T]) (broken []string) {
	t.Helper()
	var names []string
	for name := range settings(&defaults) {
		names = append(names, name)
		if !rules[name].holds(defaults) {
			broken = append(broken, name)
		}
	}
	diff(t, slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(rules)))
	return broken
}

func TestTheDefaultsAreAsPromised(t *testing.T) {
	diff(t, Config{
		Database: Database{Schema: "prescient", Prepare: "auto"},
		Run: Run{
			Workers: 64, Connections: 8, Stores: 4, Page: 2000, Lease: time.Minute, Grace: 20 * time.Second, StartTolerance: 5 * time.Second,
		},
		Jobs:   Jobs{Horizon: 43800 * time.Hour, MaxPayload: 65536},
		Alerts: Alerts{Repeat: 4 * time.Hour},
		Events: Events{Destination: NewEndpoint("outbox:"), AfterDeadLetter: "hold"},
		Server: Server{Proxy: "off"},
		Log:    Log{Level: "info", Format: "text"},
	}, Default())
}

func TestTheExampleOfBoundJobsSpellsOutTheDefaultsToo(t *testing.T) {
	_, bound := examples(t)
	path := writeFile(t, isolate(t), "example.toml", bound)
	loaded := mustLoad(t, "--config", path)
	service, query := defaultHTTPJob, defaultSQLJob
	service.Name, service.URL = "invoice.overdue", NewEndpoint("https://billing.example.com/checks")
	query.Name, query.Query = "order.unshipped", loaded.Config.SQLJobs[0].Query
	diff(t, []HTTPJob{service}, loaded.Config.HTTPJobs)
	diff(t, []SQLJob{query}, loaded.Config.SQLJobs)
	for _, entry := range loaded.Entries {
		if strings.Contains(entry.Key, "_jobs[") && entry.Origin != "file "+path {
			t.Errorf("the example lacks %s", entry.Key)
		}
	}
}

// examples returns the two files of the package's documentation.
func examples(t *testing.T) (settings, bound string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	settings, bound, found := strings.Cut(string(doc), "Two more sections")
	if !found {
		t.Fatal("doc.go has one example, want two")
	}
	code := regexp.MustCompile(`(?m)^//\t(.*\n)`)
	for _, example := range []*string{&settings, &bound} {
		var lines strings.Builder
		for _, line := range code.FindAllStringSubmatch(*example, -1) {
			lines.WriteString(line[1])
		}
		*example = lines.String()
	}
	return settings, bound
}
