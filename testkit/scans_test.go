package testkit_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

var update = flag.Bool("update", false, "write the table of docs/rules-cookbook.md from testdata/scans")

// software is a scheduled scan of public software. Its file in testdata/scans has these parts:
//
//   - The head: a line for each field, such as "software: Saleor".
//   - tables.sql creates the tables in the schema shop, with the types of the software.
//   - rules.yaml is the rule. It changes nothing of the tables.
//   - states.sql has what happens, after lines such as "-- at 03-24 10:00". "-- apply --again" follows a
//     change of a setting.
//   - fires.txt lists what fires: the step, the key, and the instant as SQL. A line that begins with ? is one
//     that a test on the past does not know, because the row has changed or is done by a condition.
//   - holds.sql lists conditions that are true at the end.
type software struct {
	file                string
	name, scan, letters string
	// with says what the rule is written with, left what it cannot say, and not why there is no rule.
	with, left, not string
	start           time.Time // default: a Monday, 6 days before clocks change in Europe
	width           time.Duration
	doneNow         int64 // rows that a test on the past counts as done now, of all steps
	parts           map[string]string
	timestamps      []state
}

// state is what happens at an instant. Empty SQL: time passes.
type state struct {
	at  time.Time
	sql string
}

// readScans reads the files of scans, in their order.
func readScans(t *testing.T) (list []software) {
	t.Helper()
	files, err := filepath.Glob("testdata/scans/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseScan(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.file = strings.TrimSuffix(filepath.Base(file), ".txt")
		list = append(list, s)
	}
	return list
}

func parseScan(text string) (s software, err error) {
	s = software{
		start: time.Date(2026, time.March, 23, 9, 0, 0, 0, time.UTC), width: 15 * time.Minute, parts: map[string]string{},
	}
	part := ""
	for line := range strings.Lines(text) {
		switch name, isPart := strings.CutPrefix(strings.TrimSuffix(line, " --\n"), "-- "); {
		case isPart && strings.HasSuffix(line, " --\n"):
			part = name
		case part != "":
			s.parts[part] += line
		default:
			if err := s.head(strings.TrimSpace(line)); err != nil {
				return s, fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	for line := range strings.Lines(s.parts["states.sql"]) {
		if at, isTime := strings.CutPrefix(strings.TrimSpace(line), "-- at "); isTime {
			when, err := time.Parse("2006-01-02 15:04", s.start.Format("2006-")+at)
			if err != nil {
				return s, err
			}
			s.timestamps = append(s.timestamps, state{at: when})
			continue
		}
		s.timestamps[len(s.timestamps)-1].sql += line
	}
	return s, nil
}

// head reads a line of the head.
func (s *software) head(line string) (err error) {
	field, value, _ := strings.Cut(line, ": ")
	texts := map[string]*string{
		"software": &s.name, "scan": &s.scan, "letters": &s.letters, "with": &s.with, "left": &s.left, "not": &s.not,
	}
	switch {
	case texts[field] != nil:
		*texts[field] = value
	case field == "start":
		s.start, err = time.Parse("2006-01-02 15:04", value)
	case field == "width":
		s.width, err = time.ParseDuration(value)
	case field == "done now":
		_, err = fmt.Sscan(value, &s.doneNow)
	default:
		err = fmt.Errorf("there is no field %q", field)
	}
	return err
}

// Each scan has a rule on tables of the software's types. It runs in virtual time, fires at the instants of the
// file, and a test on the past of the end says the same where it is sure.
func TestTheScansOfPublicSoftwareAreRules(t *testing.T) {
	t.Parallel()
	for n, s := range readScans(t) {
		if s.not != "" || testing.Short() && n%6 > 0 {
			continue
		}
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: jobs.NewRegistry(), Start: s.start, Width: s.width})
			kit.DB.MustExec(pgtest.CreateSchema("shop"))
			kit.DB.MustExec(s.parts["tables.sql"])
			path := rulesFile(t, s.parts["rules.yaml"])
			kit.Rules(path)
			told, written := 0, s.start
			for _, state := range s.timestamps {
				for kit.Now().Before(state.at) {
					next := kit.Client.Grid().Next(kit.Now())
					if next.After(state.at) {
						next = state.at
					}
					for _, result := range kit.RunUntil(next) {
						if result.Failed > 0 {
							t.Errorf("%d checks failed: %+v", result.Failed, result)
						}
					}
					events := kit.Events()
					for _, e := range events[told:] {
						if strings.Contains(string(e.Data), `"when":"after (`) {
							t.Errorf("%s %s has SQL in its data: %s", e.Type, e.Subject, e.Data)
						}
						want := kit.Client.Grid().Ceil(e.Time)
						if first := kit.Client.Grid().Next(written); want.Before(first) {
							want = first
						}
						if !kit.Now().Equal(want) {
							t.Errorf("%s %s fires at %s, want %s", e.Type, e.Subject, kit.Now(), want)
						}
					}
					told = len(events)
				}
				written = state.at
				if strings.TrimSpace(state.sql) != "" {
					kit.DB.MustExec(state.sql)
				}
				if strings.HasSuffix(state.sql, "-- apply --again\n") {
					file, store := understood(t, kit, path)
					if _, err := store.Again().Apply(t.Context(), file, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			var got []string
			for _, e := range kit.Events() {
				got = append(got, firing(e.Type, e.Subject[strings.Index(e.Subject, "/")+1:], e.Time))
			}
			all, known := s.fires(t, kit.DB)
			same(t, "the engine", all, got)
			list, doneNow := past(t, kit, path)
			same(t, "a test on the past", known, list)
			if doneNow != s.doneNow {
				t.Errorf("a test on the past has %d rows that are done now, want %d", doneNow, s.doneNow)
			}
			for condition := range strings.Lines(s.parts["holds.sql"]) {
				holds := false
				if err := kit.DB.Get(&holds, "select "+condition); err != nil || !holds {
					t.Errorf("%s: %t, %v", condition, holds, err)
				}
			}
		})
	}
}

// zeros are those before the number of a uuid.
const zeros = "00000000-0000-0000-0000-00000000000"

func firing(step, key string, at time.Time) string {
	return step + " " + strings.TrimPrefix(key, zeros) + " " + at.UTC().Format("2006-01-02 15:04:05")
}

func same(t *testing.T, which string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", which, diff)
	}
}

// fires computes the instants of fires.txt, of all lines and of those that a test on the past knows.
func (s software) fires(t *testing.T, db *sqlx.DB) (all, known []string) {
	t.Helper()
	for line := range strings.Lines(s.parts["fires.txt"]) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
		text, unknown := strings.CutPrefix(line, "? ")
		text, silent := strings.CutPrefix(text, "* ")
		text, alone := strings.CutPrefix(text, "! ")
		what, expression, found := strings.Cut(text, ": ")
		step, key, hasKey := strings.Cut(what, " ")
		if !found || !hasKey {
			t.Fatalf("%q: want such as: expired 1: timestamp '2026-03-23 09:00' + interval '1 hour'", line)
		}
		var at time.Time
		err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			tx.MustExec("set local timezone = 'UTC'")
			return tx.Get(&at, "select ("+expression+")::timestamptz")
		})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !silent && !alone {
			all = append(all, firing(step, key, at))
		}
		if !unknown {
			known = append(known, firing(step, key, at))
		}
	}
	return all, known
}

// understood returns the rules of a file, and the store that applies them.
func understood(t *testing.T, kit *testkit.Kit, path string) (rule.File, *rulestore.Store) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	file, err := rule.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	store, err := rulestore.New(t.Context(), kit.DB, rulestore.Config{Now: kit.Now})
	if err != nil {
		t.Fatal(err)
	}
	return file, store
}

// past tests the rules of a file on the past of their tables, but for those whose tables do not tell it.
func past(t *testing.T, kit *testkit.Kit, path string) (list []string, doneNow int64) {
	t.Helper()
	file, store := understood(t, kit, path)
	for _, r := range file.Rules {
		if len(r.Pause) > 0 {
			continue
		}
		applied, err := store.Understand(t.Context(), file, r)
		if err != nil {
			t.Fatal(err)
		}
		report, err := backtest.Run(t.Context(), kit.DB, applied, backtest.Config{
			From: kit.Now().AddDate(-20, 0, 0), To: kit.Now().AddDate(20, 0, 0), Now: kit.Now(),
			Grid: kit.Client.Grid(), List: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.List {
			list = append(list, firing(f.Step, f.Key, f.Due))
		}
		for _, step := range report.Steps {
			doneNow += step.DoneNow
		}
	}
	return list, doneNow
}

// The cookbook has what is tested.
func TestThePagesHaveTheScansThatAreTested(t *testing.T) {
	t.Parallel()
	const page, heading = "../docs/rules-cookbook.md", "<!-- the test of testkit writes what follows -->\n\n"
	list := readScans(t)
	whole, partly, table := 0, 0, "| software | scan | a rule with | without |\n| --- | --- | --- | --- |\n"
	for _, s := range list {
		switch {
		case s.not != "":
			s.with, s.left = "", "all: "+s.not
		case s.left != "":
			partly++
		default:
			whole++
		}
		table += fmt.Sprintf("| [%s](../testkit/testdata/scans/%s.txt) | %s | %s | %s |\n",
			s.name, s.file, s.scan, s.with, s.left)
	}
	want := fmt.Sprintf("Of %d scans, rules say %d as they are, %d without a part, and %d not at all.\n\n%s",
		len(list), whole, partly, len(list)-whole-partly, table)
	text := read(t, page)
	head, got, found := strings.Cut(text, heading)
	if *update {
		if err := os.WriteFile(page, []byte(head+heading+want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" || !found {
		t.Errorf("%s: call this test with -update (-want +got)\n%s", page, diff)
	}
	_, five, _ := strings.Cut(text, "## Five real scans\n")
	five, _, _ = strings.Cut(five, "\n## ")
	blocks := strings.Split(five, "```yaml\n")[1:]
	if len(blocks) != 5 {
		t.Errorf("the cookbook has %d scans", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !slices.ContainsFunc(list, func(s software) bool { return strings.HasPrefix(s.parts["rules.yaml"], block) }) {
			t.Errorf("no file of testdata/scans begins with the rule:\n%s", block)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
