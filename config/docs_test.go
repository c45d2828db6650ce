package config

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/viper"
)

var update = flag.Bool("update", false, "write the settings into docs/settings.md and doc.go")

// A setting is described once: in the comment of its field. The page and the package's documentation follow from it.
func TestThePageOfSettingsHasEachWithItsDefault(t *testing.T) {
	about := comments(t)
	var rows strings.Builder
	defaults := Default()
	for key, field := range fields(&defaults) {
		value := show(field)
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", key, cmp.Or(value, "empty"), about[key])
	}
	written(t, "../docs/settings.md", regexp.MustCompile("(?m)(?:^\\| `[a-z]+\\.[a-z_.]+` \\| .*\n)+"), rows.String())
}

func TestTheDocumentationOfThePackageHasEachSettingWithItsDefault(t *testing.T) {
	var block strings.Builder
	defaults, section := Default(), ""
	for key, field := range fields(&defaults) {
		of, name, _ := strings.Cut(key, ".")
		if of != section {
			section = of
			fmt.Fprintf(&block, "//\t%s:\n", section)
		}
		value := show(field)
		if !regexp.MustCompile(`^([a-z0-9]+(:\d+)?)$`).MatchString(value) || value == "off" {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&block, "//\t  %s: %s\n", name, value)
	}
	written(t, "doc.go", regexp.MustCompile("(?m)^//\tdatabase:\n(?://\t.*\n)+"), block.String())

	// It is a file that can be loaded.
	settings, _ := examples(t)
	path := writeFile(t, isolate(t), "example.yaml", settings)
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

// written requires the first match of a part to be text, or writes it with -update.
func written(t *testing.T, path string, part *regexp.Regexp, text string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := part.FindIndex(page)
	switch {
	case at == nil:
		t.Fatalf("%s does not have %s", path, part)
	case *update:
		if err := os.WriteFile(path, slices.Concat(page[:at[0]], []byte(text), page[at[1]:]), 0o644); err != nil {
			t.Fatal(err)
		}
	case string(page[at[0]:at[1]]) != text:
		t.Errorf("%s is not up to date: go test ./config -update; it should have\n%s", path, text)
	}
}

// comments returns what the comment of each setting's field says about it, by key: without the name of the field, and
// without the default.
func comments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{} // by type
	for section := range reflect.TypeFor[Config]().Fields() {
		sections[section.Type.Name()] = section.Tag.Get("mapstructure")
	}
	about := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		of, is := n.(*ast.TypeSpec)
		if !is || sections[of.Name.Name] == "" {
			return true
		}
		for _, field := range of.Type.(*ast.StructType).Fields.List {
			name := field.Names[0].Name
			text := strings.Join(strings.Fields(field.Doc.Text()), " ")
			text, _, found := strings.Cut(text, " Defaults to ")
			begun := regexp.MustCompile(`^` + name + ` (?:(?:is|are) )?`).FindString(text)
			if !found || begun == "" {
				t.Errorf("the comment of %s.%s should begin with %[2]s, and end with Defaults to ...", of.Name, name)
			}
			key := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("mapstructure")
			about[sections[of.Name.Name]+"."+key] = strings.TrimSuffix(text[len(begun):], ".")
		}
		return false
	})
	return about
}
