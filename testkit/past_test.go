package testkit_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/testkit"
)

// tested returns the report of a test on the past about a file with one rule, beside the steps that the rule has fired.
func tested(t *testing.T, kit *testkit.Kit, path string, from time.Time) (report backtest.Report, text string) {
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
	applied, err := store.Understand(t.Context(), file, file.Rules[0])
	if err != nil {
		t.Fatal(err)
	}
	steps, err := store.Recorded(t.Context(), applied)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := pgsql.ParseSchema("")
	if err != nil {
		t.Fatal(err)
	}
	cfg := backtest.Config{From: from, Now: kit.Now()}
	if len(steps) > 0 {
		cfg.Record = &backtest.Record{Schema: schema, Steps: steps}
	}
	if report, err = backtest.Run(t.Context(), kit.DB, applied, cfg); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range report.Steps {
		lines = append(lines, fmt.Sprintf("%s: fired %d recorded %d met %d open %d done now %d again %d, lacks %s", s.Name,
			s.Fired, s.Recorded, s.Met, s.Open, s.DoneNow, s.Again, strings.Join(s.Unrecorded, "+")))
	}
	return report, strings.Join(lines, "\n")
}

// Steps close their own rows, so the table alone does not tell what they have done.
func TestATestOfARuleThatIsAppliedCountsWhatItHasFired(t *testing.T) {
	t.Parallel()
	const file = `rules:
  - name: ticket.open
    table: public.tickets
    key: id
    since: opened_at
    %s
    overdue: last
    steps:
      - {after: 1d, event: nag, every: 12h, times: 3}
      - {after: 3d, name: close, sql: %s}
`
	start := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
	const closes = "update public.tickets set status = 'closed' where id = $key"
	for name, test := range map[string]struct{ ends, sql, want string }{
		"a condition of done": {
			"done: status <> 'open'", closes, `nag: fired 2 recorded 2 met 2 open 1 done now 0 again 3, lacks 
close: fired 1 recorded 1 met 3 open 1 done now 0 again 0, lacks `,
		},
		"a step that leaves where": {
			"done: false\n    where: status = 'open'", closes, `nag: fired 2 recorded 2 met 0 open 1 done now 0 again 3, lacks 
close: fired 1 recorded 1 met 1 open 1 done now 0 again 0, lacks `,
		},
		"a step that deletes": {
			"done: status <> 'open'", "delete from public.tickets where id = $key", `nag: fired 2 recorded 2 met 2 open 1 done now 0 again 3, lacks 
close: fired 1 recorded 1 met 3 open 1 done now 0 again 0, lacks `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table tickets (id bigint primary key, status text not null default 'open', opened_at timestamptz not null)")
			path := rulesFile(t, fmt.Sprintf(file, test.ends, test.sql))
			kit.DB.MustExec("insert into tickets values (5, 'closed', $1)", start.Add(-9*day)) // before the rule was applied
			if _, got := tested(t, kit, path, start); !strings.HasSuffix(got, "done now 0 again 0, lacks ") {
				t.Errorf("before the apply: %s", got)
			}
			kit.Rules(path)
			kit.DB.MustExec("insert into tickets (id, opened_at) values (1, $1), (2, $1), (3, $1)", start)
			kit.RunFor(12 * time.Hour)
			kit.DB.MustExec("update tickets set status = 'closed' where id = 3")
			kit.RunFor(28 * time.Hour)
			kit.DB.MustExec("update tickets set status = 'closed' where id = 2")
			kit.RunFor(40 * time.Hour)
			kit.DB.MustExec("insert into tickets (id, opened_at) values (4, $1), (6, $1)", kit.Now().Add(-time.Hour))
			kit.DB.MustExec("update tickets set status = 'closed' where id = 6")
			report, got := tested(t, kit, path, start)
			if got != test.want || !report.Recorded {
				t.Errorf("\n%s\nwant\n%s", got, test.want)
			}
			// The times of the file are others than those that have fired.
			other := rulesFile(t, strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf(file, test.ends, test.sql), "1d", "23h"), "3d", "71h"))
			if report, got := tested(t, kit, other, start); report.Recorded {
				t.Errorf("other times: %s", got)
			}
		})
	}
}

// The table does not tell that its clocks have moved, and what followed.
func TestATestOfARuleThatIsAppliedCountsWhatFollowedClocksThatHaveMoved(t *testing.T) {
	t.Parallel()
	const file = `rules:
  - name: mail.silent
    table: public.mailbox
    key: id
    since: fetched_at
    done: closed_at
    recovered: {event: mail.works}
    met: {event: mail.closed}
    steps: [{after: 1h, event: silent}]
`
	const want = `silent: fired 2 recorded 2 met 1 open 2 done now 0 again 0, lacks 
recovered: fired 2 recorded 2 met 1 open 2 done now 0 again 0, lacks 
met: fired 1 recorded 1 met 0 open 2 done now 0 again 0, lacks `
	for _, of := range []string{"timestamptz", "timestamp"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table mailbox (id bigint primary key, fetched_at " + of + ", closed_at timestamptz)")
			path := rulesFile(t, file)
			kit.Rules(path)
			kit.DB.MustExec("insert into mailbox values (1, $1), (2, $1)", start)
			kit.RunFor(30 * time.Minute)
			kit.DB.MustExec("update mailbox set closed_at = $1 where id = 2", kit.Now()) // in time
			kit.RunFor(90 * time.Minute)                                                 // row 1 is silent at 9
			kit.DB.MustExec("update mailbox set fetched_at = $1 where id = 1", kit.Now())
			kit.RunFor(2 * time.Hour) // and again at 11
			kit.DB.MustExec("update mailbox set fetched_at = $1, closed_at = null", kit.Now())
			kit.RunFor(30 * time.Minute)
			report, got := tested(t, kit, path, start)
			if got != want || report.Rows != 5 {
				t.Errorf("of %d rows\n%s\nwant\n%s", report.Rows, got, want)
			}
		})
	}
}
