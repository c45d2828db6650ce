package sql

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var freeze = flag.Bool("freeze", false, "add the migrations that are not in released.txt to it")

const releasedFile = "migrations/released.txt"

// release is a line of released.txt. Its hashes are those of the texts that a database gets, so they also
// cover the lists of columns in statements/columns.go.
type release struct{ migration, hash, functions string }

func parseReleased(text string) (list []release, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("want a migration and two hashes: %q", line)
		}
		list = append(list, release{fields[0], fields[1], fields[2]})
	}
	return list, nil
}

// faultsOfReleased compares what is released with the files. A database that has all migrations has the
// functions of the last one, so they may change only together with a new migration.
func faultsOfReleased(released []release, migrations, functions []source) (faults []string) {
	for i, r := range released {
		switch {
		case i >= len(migrations) || migrations[i].name != r.migration:
			faults = append(faults, fmt.Sprintf("%s is released: put it back as migration %d", r.migration, i+1))
		case hashOf(migrations[i]) != r.hash:
			faults = append(faults, fmt.Sprintf("%s is released: put its text back, and write a new migration", r.migration))
		}
	}
	if n := len(released); n > 0 && n == len(migrations) && hashOf(functions...) != released[n-1].functions {
		faults = append(faults, fmt.Sprintf("the functions are released with %s: "+
			"add a migration that raises setting.schema_version, and SchemaVersion", released[n-1].migration))
	}
	return faults
}

func TestWhatIsReleasedStaysAsItIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	released, err := parseReleased(string(text))
	if err != nil {
		t.Fatal(err)
	}
	faults := faultsOfReleased(released, migrations(), functions())
	for _, fault := range faults {
		t.Error(fault)
	}
	if !*freeze || len(faults) > 0 {
		return
	}
	for _, m := range migrations()[len(released):] {
		text = fmt.Appendf(text, "%s %s %s\n", m.name, hashOf(m), functionsHash())
	}
	if err := os.WriteFile(releasedFile, text, 0o644); err != nil { //nolint:gosec // a file of the source
		t.Fatal(err)
	}
}

func TestAChangeOfWhatIsReleasedIsFound(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{
		"m/00001_a.sql": {Data: []byte("create table prescient.a ({{kept}})")},
		"m/00002_b.sql": {Data: []byte("create table prescient.b ()")},
	}
	both, functions := readFiles(folder, "m"), []source{{"f", "create function"}}
	a, b := both[0], both[1]
	released := []release{
		{"00001_a", hashOf(a), "those of another release"},
		{"00002_b", hashOf(b), hashOf(functions...)},
	}
	for name, c := range map[string]struct {
		released              []release
		migrations, functions []source
		want                  string // empty: no fault
	}{
		"nothing":              {released, both, functions, ""},
		"nothing is released":  {nil, []source{a}, nil, ""},
		"a new migration":      {released, append(slices.Clone(both), source{"00003_c", ""}), nil, ""},
		"the text":             {released, []source{{a.name, a.text + " "}, b}, functions, "00001_a is released: put its text back"},
		"its name":             {released, []source{a, {"00002_c", b.text}}, functions, "00002_b is released: put it back as migration 2"},
		"it is gone":           {released, []source{a}, functions, "00002_b is released: put it back as migration 2"},
		"one is put before it": {released, []source{a, {"00002_c", ""}, b}, functions, "00002_b is released: put it back as migration 2"},
		"a function":           {released, both, []source{{"f", "create function "}}, "the functions are released with 00002_b"},
	} {
		faults := faultsOfReleased(c.released, c.migrations, c.functions)
		if got := strings.Join(faults, "; "); (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
	list, err := parseReleased("# a comment of three words\n\n00001_a x y\n")
	if err != nil || !slices.Equal(list, []release{{"00001_a", "x", "y"}}) {
		t.Errorf("parsed %v, %v", list, err)
	}
	if _, err := parseReleased("00001_a x\n"); err == nil {
		t.Error("a line without the hash of the functions is taken")
	}
}
