package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchFile has the results of one run of make bench. Every table of figures that a page shows comes from it.
const benchFile = "../bench/full.json"

// benchReport is the JSON of the bench.
type benchReport struct {
	Started  time.Time
	Revision string
	Short    bool
	Rows     int
	Rounds   int
	Versions map[string]string
	Settings map[string]string
	Figures  []benchFigure
	Notes    []string
}

type benchFigure struct {
	Workload, Case, Subject, Against, Unit, Note string

	Value, Base, Ratio float64
}

// find returns the first figure of a workload whose case, subject and peer begin with these texts or contain
// them behind a number, such as "due no-op jobs" in "100k due no-op jobs".
func (r benchReport) find(workload, what, subject, against string) (benchFigure, error) {
	for _, f := range r.Figures {
		if f.Workload == workload && strings.Contains(f.Case, what) && f.Subject == subject &&
			strings.HasPrefix(f.Against, against) {
			return f, nil
		}
	}
	return benchFigure{}, fmt.Errorf("no figure of %s: %s, %s against %s", workload, what, subject, against)
}

// tables are the blocks of figures, by the names that the pages give them.
var tables = map[string]func(r benchReport) (string, error){
	"README":       readmeFigures,
	"transactions": transactionFigures,
	"sizing":       costFigures,
	"conditions":   conditionsOfFigures,
	"all":          allFigures,
}

const (
	riverPerRow  = "River, a transaction for each row"
	checkOfOrder = "check an order, alert for 5 %, exactly once"
)

func readmeFigures(r benchReport) (string, error) {
	var b strings.Builder
	b.WriteString("| | prescient | beside it | ratio |\n| --- | --- | --- | --- |\n")
	for _, line := range []struct{ says, how, workload, what, subject, against string }{
		{"no-op jobs", "one row a call", "peers", "due no-op jobs", "prescient", "River, 1000 workers"},
		{checkOfOrder, "a transaction for each row", "realistic", "checks", "prescient, a transaction for each row", riverPerRow},
		{
			"enqueue one by one, each in its transaction", "as it is by default", "enqueue", "one by one",
			"prescient Enqueue, keyed", "River InsertTx",
		},
	} {
		f, err := r.find(line.workload, line.what, line.subject, line.against)
		if err != nil {
			return "", err
		}
		beside := ""
		if f.Against != "" {
			beside = f.Against + ": " + amount(f.Base, f.Unit)
		}
		fmt.Fprintf(&b, "| %s | %s, %s | %s | %s |\n", line.says, amount(f.Value, f.Unit), line.how, beside, times(f.Ratio))
	}
	return b.String(), nil
}

func transactionFigures(r benchReport) (string, error) {
	rates := map[string]float64{}
	for _, side := range []string{
		"a transaction for each row", "row by row in shared transactions", "in batches with a transaction",
	} {
		f, err := r.find("realistic", "checks", "prescient, "+side, "")
		if err != nil {
			return "", err
		}
		rates[side] = f.Value
	}
	single := rates["a transaction for each row"]
	return fmt.Sprintf(`| | rows in a transaction | rate | take it for |
| --- | --- | --- | --- |
| %[1]s | one | 1 | functions that call other services, hold locks or take long |
| %[2]s | up to 50 | %[4]s times that | short functions that only speak to the database |
| %[3]s | up to a page (2,000) | %[5]s times that | checks that one query answers for all rows |
`, "`InTx`", "`Each`", "`BatchInTx`", times(rates["row by row in shared transactions"]/single),
		times(rates["in batches with a transaction"]/single)), nil
}

func costFigures(r benchReport) (string, error) {
	var b strings.Builder
	b.WriteString("| what | cost or rate |\n| --- | --- |\n")
	for _, line := range []struct{ says, workload, what, subject, against string }{
		{"enqueue, one a transaction, 16 connections", "enqueue", "one by one", "prescient Enqueue, keyed", "River InsertTx"},
		{"enqueue in bulk, by `EnqueueAll`", "enqueue", "in bulk, keyed", "prescient EnqueueAll", "COPY"},
		{
			"insert into a table with a rule, one a transaction", "rules", "inserted one by one", "with a rule",
			"without, and a call of enqueue",
		},
		{"check with a transaction for each row", "realistic", "checks", "prescient, a transaction for each row", riverPerRow},
		{"check in batches with a transaction", "realistic", "checks", "prescient, in batches with a transaction", riverPerRow},
		{"checks of a rule, each with an event", "rules", "with an event to the outbox", "a rule", "sql_jobs"},
		{"`rules apply` on a table of a million rows", "rules", "apply on 1M rows", "alone", ""},
		{"a run of an empty slot, from start to exit", "scale", "an empty slot", "the process `prescient run`", ""},
	} {
		f, err := r.find(line.workload, line.what, line.subject, line.against)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %s |\n", line.says, amount(f.Value, f.Unit))
	}
	return b.String(), nil
}

func conditionsOfFigures(r benchReport) (string, error) {
	var b strings.Builder
	kind := "`make bench-full`"
	if r.Short {
		kind = "`make bench`"
	}
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n| command | %s |\n| day | %s |\n| commit | `%s` |\n",
		kind, r.Started.Format("2 January 2006"), r.Revision)
	fmt.Fprintf(&b, "| due rows of a part | %d |\n| rounds, by turns | %d |\n", r.Rows, r.Rounds)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, r.Versions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, r.Settings[name])
	}
	return b.String(), nil
}

// allFigures is a table for each workload. Figures that only differ in their target are one line.
func allFigures(r benchReport) (string, error) {
	var b strings.Builder
	workload, known := "", map[[4]string]bool{}
	for _, f := range r.Figures {
		key := [4]string{f.Workload, f.Case, f.Subject, f.Against}
		if known[key] {
			continue
		}
		known[key] = true
		if f.Workload != workload {
			if workload != "" {
				b.WriteString("\n")
			}
			workload = f.Workload
			fmt.Fprintf(&b, "### %s\n\n| case | measured | | beside it | | ratio | |\n"+
				"| --- | --- | ---: | --- | ---: | ---: | --- |\n", workload)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.Case, f.Subject, amount(f.Value, f.Unit), f.Against,
			amount(f.Base, f.Unit), exactTimes(f.Ratio), f.Note)
	}
	return b.String(), nil
}

func amount(v float64, unit string) string {
	number := fmt.Sprintf("%.3g", v)
	switch rate := unit == "rows/s"; {
	case v == 0:
		return ""
	case rate && v >= 10_000:
		number = fmt.Sprintf("%.0fk", v/1000)
	case rate && v >= 1000:
		number = fmt.Sprintf("%.1fk", v/1000)
	case v >= 100:
		number = fmt.Sprintf("%.0f", v)
	}
	return number + " " + unit
}

func times(ratio float64) string {
	switch {
	case ratio == 0:
		return ""
	case ratio >= 10:
		return fmt.Sprintf("%.0f", ratio)
	default:
		return fmt.Sprintf("%.1f", ratio)
	}
}

func exactTimes(ratio float64) string {
	if ratio == 0 || ratio >= 10 {
		return times(ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

// figureBlock is a table of figures in a page, between two comments.
var figureBlock = regexp.MustCompile(`(?s)(<!-- figures: (\w+), .*? -->\n\n)(.*?)(\n<!-- end of figures -->)`)

// withFigures returns a page with the figures of a report.
func withFigures(text string, r benchReport) (string, error) {
	var failed error
	text = figureBlock.ReplaceAllStringFunc(text, func(block string) string {
		m := figureBlock.FindStringSubmatch(block)
		write, ok := tables[m[2]]
		if !ok {
			failed = errors.Join(failed, fmt.Errorf("there are no figures %q", m[2]))
			return block
		}
		table, err := write(r)
		failed = errors.Join(failed, err)
		return m[1] + table + m[4]
	})
	return text, failed
}

var pagesWithFigures = []string{"../README.md", "../bench/FIGURES.md", "transactions.md", "sizing.md"}

func TestTheFiguresOfThePagesAreThoseOfOneRunOfTheBench(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(benchFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("make figures has written none yet")
	}
	var r benchReport
	if err := errors.Join(err, json.Unmarshal(data, &r)); err != nil {
		t.Fatal(err)
	}
	if r.Rows < 100_000 || len(r.Revision) != 12 {
		t.Errorf("%s has %d rows a part, and the revision %q: take a full run of a clean checkout",
			benchFile, r.Rows, r.Revision)
	}
	for _, note := range r.Notes {
		if strings.HasPrefix(note, "FAILED") {
			t.Errorf("%s is of a run that failed: %s", benchFile, note)
		}
	}
	for _, page := range pagesWithFigures {
		text := readPage(t, page)
		want, err := withFigures(text, r)
		switch {
		case err != nil:
			t.Errorf("%s: %v", page, err)
		case want == text:
		case !*update:
			t.Errorf("%s has other figures than %s: make figures", page, benchFile)
		default:
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // a page for all readers
				t.Fatal(err)
			}
		}
	}
}

func TestEachPageTakesItsFiguresFromTheReport(t *testing.T) {
	t.Parallel()
	const perRow = "River, a transaction for each row"
	r := benchReport{
		Started: time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC), Revision: "0123456789ab", Short: true, Rows: 100_000, Rounds: 3,
		Versions: map[string]string{"PostgreSQL": "15.18"}, Settings: map[string]string{"fsync": "on"},
		Figures: []benchFigure{
			{"peers", "100k due no-op jobs", "prescient", "River, 1000 workers", "rows/s", "", 141_000, 23_000, 5.93},
			{"peers", "100k due no-op jobs", "prescient", "River, 1000 workers", "rows/s", "the best", 141_000, 23_000, 5.93},
			{"peers", "100k due no-op jobs", "prescient, in batches", "River, 1000 workers", "rows/s", "", 146_000, 23_000, 6.4},
			{"realistic", "100k checks", "prescient, in batches with a transaction", perRow, "rows/s", "", 129_000, 3300, 39.1},
			{"realistic", "100k checks", "prescient, row by row in shared transactions", perRow, "rows/s", "", 14_000, 3300, 4.2},
			{"realistic", "100k checks", "prescient, a transaction for each row", perRow, "rows/s", "", 3900, 3300, 1.18},
			{
				"enqueue", "2.5k one by one, 16", "prescient Enqueue, keyed", "River InsertTx", "rows/s", "",
				4300, 5800, 0.9,
			},
			{"scale", "an empty slot", "the process `prescient run`", "", "ms", "", 24, 0, 0},
			{"enqueue", "100k in bulk, keyed", "prescient EnqueueAll", "COPY", "rows/s", "", 103_000, 113_000, 0.9},
			{
				"rules", "20k inserted one by one", "with a rule", "without, and a call of enqueue", "rows/s", "",
				3100, 3600, 0.85,
			},
			{"rules", "a slot of 100k rows, each with an event to the outbox", "a rule", "sql_jobs", "rows/s", "", 38_000, 46_000, 0.8},
			{"rules", "apply on 1M rows", "alone", "", "rows/s", "", 72_000, 0, 0},
		},
		Notes: []string{"a note"},
	}
	seen := map[string]bool{}
	for _, page := range pagesWithFigures {
		text := readPage(t, page)
		for _, m := range figureBlock.FindAllStringSubmatch(text, -1) {
			seen[m[2]] = true
		}
		got, err := withFigures(text, r)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		if again, err := withFigures(got, r); err != nil || again != got {
			t.Errorf("%s: writing the figures again changes it: %v", page, err)
		}
		for _, fault := range faultsOf(got) {
			t.Errorf("%s:%s", page, fault)
		}
	}
	for name := range tables {
		if !seen[name] {
			t.Errorf("no page has the figures %q", name)
		}
	}
	const before, after = "text\n<!-- figures: README, x -->\n\n", "\n<!-- end of figures -->\ntext\n"
	got, err := withFigures(before+"old\n"+after, r)
	want := before + `| | prescient | beside it | ratio |
| --- | --- | --- | --- |
| no-op jobs | 141k rows/s, one row a call | River, 1000 workers: 23k rows/s | 5.9 |
| check an order, alert for 5 %, exactly once | 3.9k rows/s, a transaction for each row | River, a transaction for each row: 3.3k rows/s | 1.2 |
| enqueue one by one, each in its transaction | 4.3k rows/s, as it is by default | River InsertTx: 5.8k rows/s | 0.9 |
` + after
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if table, _ := allFigures(r); strings.Count(table, "| prescient | 141k") != 1 {
		t.Errorf("a figure with two targets is not one line:\n%s", table)
	}
	if _, err := withFigures(before+after, benchReport{}); err == nil {
		t.Error("a report without the figures is taken")
	}
	if _, err := withFigures(strings.Replace(before, "README", "other", 1)+after, r); err == nil {
		t.Error("a page may ask for figures that there are not")
	}
}
