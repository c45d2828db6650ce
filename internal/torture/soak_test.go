package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "draw the picture of the soak, and write its table into RUNS.md")

// TestMain lets the test binary be a process of prescient, as the torture does.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		os.Exit(beProcess(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func TestASoakTakesSamplesAndBreaksNothing(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "prescient-torture-") // the user of the server reaches it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	broken, err := run(t.Context(), options{
		seed: 1, most: 5 * time.Second, sampled: time.Second, recovery: time.Minute, soaked: true, keep: dir,
	})
	if broken > 0 || err != nil {
		t.Fatalf("%d violations, %v", broken, err)
	}
	all, err := readSamples((&torture{dir: dir}).samples())
	if err != nil || len(all) == 0 {
		t.Fatalf("%d samples, %v", len(all), err)
	}
	for _, column := range []string{
		"daemon a memory", "daemon b heap", "daemon b goroutines", "server connections",
		"future_job", "other work indexes", "kept tables and indexes",
	} {
		if all[len(all)-1][column] == 0 {
			t.Errorf("the last sample has no %s: %v", column, all[len(all)-1])
		}
	}
}

func TestWhatGrowsInASoakIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		column string
		grows  float64 // with each sample
		want   string
	}{
		"memory":             {"daemon b memory", 1000, "daemon b memory grew from 9000 to 22000"},
		"a goroutine":        {"daemon a goroutines", 1, "daemon a goroutines grew"},
		"memory, but little": {"daemon b memory", 100, ""},
		"history":            {"history rows", 1000, ""},
	} {
		var all []sample
		for i := range 26 {
			all = append(all, sample{test.column: float64(i) * test.grows})
		}
		got := strings.Join(found(func(broken func(string, ...any)) { checkFlat(all, broken) }), "; ")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

var soakBlock = regexp.MustCompile(`(?s)(<!-- soak: [^\n]* -->\n\n)(.*?)(\n<!-- end of soak -->)`)

func TestThePictureOfTheSoakIsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	const samples, picture, path = "soak.csv", "soak.svg", "RUNS.md"
	all, err := readSamples(samples)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	drawn, told := draw(all), soakBlock.ReplaceAll(page, fmt.Appendf(nil, "${1}%s${3}", soakTable(all)))
	if *update {
		for file, text := range map[string][]byte{picture: drawn, path: told} {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		page = told
	}
	if kept, err := os.ReadFile(picture); err != nil || !bytes.Equal(kept, drawn) {
		t.Errorf("%s is not what was measured: make pictures. %v", picture, err)
	}
	if !soakBlock.Match(page) || !bytes.Equal(page, told) {
		t.Errorf("%s does not have the table of the soak: make pictures", path)
	}
}
