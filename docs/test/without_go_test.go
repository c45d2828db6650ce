package docs_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/config"
)

func TestThePageHasEachSettingOfAJobWithoutGo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("without-go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(page), "## A service: http_jobs")
	query, _, _ := strings.Cut(string(page), "## A service: http_jobs")
	_, both, _ := strings.Cut(service, "## Settings of both")
	for text, entry := range map[string]any{query: config.SQLJob{}, service: config.HTTPJob{}, both: config.Options{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(entry)) {
			if key, _, _ := strings.Cut(field.Tag.Get("mapstructure"), ","); key != "" && !strings.Contains(text+both, "`"+key+"`") {
				t.Errorf("without-go.md does not have %s of %T", key, entry)
			}
		}
	}
}
