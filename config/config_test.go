package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/viper"
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

func TestTheDefaultsAreAsPromised(t *testing.T) {
	diff(t, Config{
		Database: Database{Schema: "prescient"},
		Run: Run{
			Workers: 64, Connections: 8, Page: 1000, Lease: time.Minute, Grace: 20 * time.Second, Early: 5 * time.Second,
		},
		Jobs: Jobs{Horizon: 43800 * time.Hour, MaxPayload: 65536},
		Log:  Log{Level: "info", Format: "text"},
	}, Default())
}

func TestTheExampleFileOfTheDocumentationSpellsOutTheDefaults(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := isolate(t)
	example := strings.Join(regexp.MustCompile(`(?m)^//\t.*\n`).FindAllString(string(doc), -1), "")
	example = strings.ReplaceAll(example, "//\t", "")
	path := writeFile(t, dir, "example.yaml", example)
	diff(t, Default(), mustLoad(t, "--config", path).Config)

	v := viper.New()
	if _, err := readFile(v, path); err != nil {
		t.Fatal(err)
	}
	for key := range fields(new(Config)) {
		if !v.InConfig(key) {
			t.Errorf("the example lacks %s", key)
		}
	}
}
