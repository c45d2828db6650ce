package docs_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/config"
)

// A copy with such a setting of the original would act in its place.
func TestThePageNamesEachSettingThatACopyMustNotHave(t *testing.T) {
	t.Parallel()
	list := outside("", reflect.TypeFor[config.Config]())
	for _, key := range []string{
		"alerts.receiver", "database.url", "events.destination", "events.destinations", "events.source", "http_jobs",
		"receivers", "run.ping_url", "sql_jobs", "stores",
	} {
		if !slices.Contains(list, key) {
			t.Errorf("%s is not found: %q", key, list)
		}
	}
	section := copySection(t)
	for _, key := range list {
		if !strings.Contains(section, "`"+key+"`") {
			t.Errorf("restore.md does not tell what %s does on a copy", key)
		}
	}
}

// outside returns the settings below a key that lead out of the database, or name the sender of what leaves it. Of a
// list, the entries of which have such settings, it returns the key.
func outside(key string, of reflect.Type) (list []string) {
	addresses := []reflect.Type{reflect.TypeFor[config.URL](), reflect.TypeFor[config.Endpoint](), reflect.TypeFor[config.Address]()}
	names := []string{"file", "receiver", "source"}
	for field := range of.Fields() {
		name := field.Tag.Get("mapstructure")
		path := strings.TrimPrefix(key+"."+name, ".")
		switch {
		case slices.Contains(addresses, field.Type), slices.Contains(names, name):
			list = append(list, path)
		case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct && name != "" && key == "":
			if len(outside("", field.Type.Elem())) > 0 {
				list = append(list, path)
			}
		case field.Type.Kind() == reflect.Struct && name != "":
			list = append(list, outside(path, field.Type)...)
		}
	}
	return list
}

// copySection returns what restore.md says about copies.
func copySection(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(readPage(t, "restore.md"), "\n## A copy beside the original\n")
	if !found {
		t.Fatal("restore.md says nothing about copies")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}
