package docs_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/health"
)

// ordinary are words of JSON, metrics and conditions that mean what they mean everywhere. A word of the product belongs
// into glossary.md instead.
const ordinary = `
	acted active address after again age all api application applied as asked at authentication axis before begin begins
	between blocking by calendar cancelled caught cells changed changes class closed code coming concurrency confirm
	count counting created cron current data database date day days default delay deleted description detail do done
	due duration empty end ended enqueued error estimated exec expected failed failure field fields file finished first
	fixed for forgotten found from go half halved has help host id index instant interval is key kind lag last latest learn
	learned limit listed live local log lost max median method min mode modified month months more most moved name
	next not note nothing now number of ok old oldest once open opened option origin out over own p50 p90 p99 part past path per
	percent pid plan point
	pool prescient present previous private problem published queries query rate read reason replaced requested result
	revision role row rows rule running schema script second seconds series services settings severity since size
	socket source span sql start state subject success sum table taken takes target text time timeout timestamp
	timezone title to took total transaction type unchanged unfinished unknown unread until up updated url user value
	version waiting warnings was what when where who why works written`

var (
	glossaryEntry = regexp.MustCompile(`(?ms)^- \*\*([^*]+)\*\*: (.*?)\n(?:- |\n|\z)`)
	reference     = regexp.MustCompile("`[^`]+`|\\]\\([^)]+\\)")
	word          = regexp.MustCompile(`[a-z0-9]+`)
	jsonTag       = regexp.MustCompile("json:\"([a-z0-9_]+)")
	metricRow     = regexp.MustCompile("(?m)^\\| `(prescient_[a-z_]+)` \\| [a-z]+ \\| ([a-z_, ]*) \\|")
)

// glossary returns the entries of glossary.md by their term, and the terms in the order of the page.
func glossary(t *testing.T) (entries map[string]string, terms []string) {
	t.Helper()
	text := strings.ReplaceAll(readPage(t, "glossary.md"), "\n- **", "\n\n- **")
	entries = map[string]string{}
	for _, m := range glossaryEntry.FindAllStringSubmatch(text, -1) {
		if entries[m[1]] != "" {
			t.Errorf("glossary.md defines %q twice", m[1])
		}
		entries[m[1]] = m[2]
		terms = append(terms, m[1])
	}
	if len(terms) < 50 || len(terms) != strings.Count(text, "\n- **") {
		t.Fatalf("%d entries of glossary.md are understood", len(terms))
	}
	return entries, terms
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// productNames returns the names that commands, metrics and the API print, by where each comes from. Tests of their own
// compare json.schema.json and metrics.md with the code.
func productNames(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	var schema struct {
		Defs map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(readPage(t, "../cmd/json.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	for _, def := range schema.Defs {
		for name := range def.Properties {
			names[name] = "json.schema.json"
		}
	}
	for _, m := range metricRow.FindAllStringSubmatch(readPage(t, "metrics.md"), -1) {
		names[m[1]], names[m[2]] = "metrics.md", "metrics.md"
	}
	for _, name := range health.Names() {
		names[name] = "status --check"
	}
	for _, c := range []forecast.Condition{forecast.TooLong, forecast.SLA, forecast.Deadline} {
		names[string(c)] = "plan forecast --check"
	}
	for _, o := range jobs.Outcomes() {
		names[string(o)] = "the outcomes"
	}
	// the documents of the APIs are made from types when they are asked for
	for _, dir := range []string{
		"cmd/internal/serve/board", "cmd/internal/view", "internal/web", "jobs/admin", "internal/scheduleapi",
		"internal/advise", "internal/forecast", "slots/health", "slots/ledger",
	} {
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range jsonTag.FindAllStringSubmatch(readPage(t, file), -1) {
				names[m[1]] = file
			}
		}
	}
	return names
}

func TestTheGlossaryHasEveryWordOfJSONMetricsAndConditions(t *testing.T) {
	t.Parallel()
	entries, terms := glossary(t)
	known := map[string]bool{}
	learn := func(text string) {
		for _, w := range word.FindAllString(strings.ToLower(text), -1) {
			known[w], known[w+"s"] = true, true
		}
	}
	learn(ordinary)
	for term, text := range entries {
		learn(term)
		for _, name := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
			learn(name)
		}
	}
	names := productNames(t)
	if len(names) < 200 {
		t.Fatalf("only %d names were found", len(names))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, w := range word.FindAllString(name, -1) {
			if !known[w] {
				t.Errorf("%s has %s: define %q in glossary.md, or use a word that is there", names[name], name, w)
			}
		}
	}
	for i, term := range terms {
		if !reference.MatchString(entries[term]) {
			t.Errorf("glossary.md does not say which command, condition, field or column %q stands for", term)
		}
		if i > 0 && strings.ReplaceAll(terms[i-1], "-", " ") >= strings.ReplaceAll(term, "-", " ") {
			t.Errorf("%q comes before %q in glossary.md", terms[i-1], term)
		}
	}
}
