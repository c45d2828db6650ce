package rulescmd

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// asCSV is a format of --output.
const asCSV = "csv"

type testOptions struct {
	fileOptions
	since, until cli.Instant
	after        []string
	rule         string // empty: all
	list         bool
}

func newCmdTest(f *factory.Factory) *cobra.Command {
	o := &testOptions{fileOptions: fileOptions{f: f}}
	f.Format = output.Table
	c := o.flag(&cobra.Command{
		Use:   "test [RULE]",
		Short: "Show what rules would have done in the past",
		Long: `Show what each step of each rule would have done in the past: for how many rows it would
have fired, and how many were done in time, by the month in which they began to wait. It reads each
table once, in a read-only transaction, and writes nothing. The rules need not be applied, and the database needs no
schema of prescient. With RULE it tests that rule of the file alone. A rule that cannot be tested, such as one with
pause, does not keep the others from it.

If the rule is applied with the same times, what it has fired since counts, too, and RECORDED is the part of FIRED for
which a step has fired: also for rows that a step has closed or deleted, and for clocks that have moved.

FIRED counts the rows for which the step would have fired, MET those that were done by then, and OPEN those that are not
done and whose slot is still to come. FIRED % is FIRED divided by FIRED plus MET. AGAIN counts how
often the step would have fired again for these rows.

DONE NOW counts the rows that a condition of "done" ends now. The table does not say since when, so the step may have
fired or not, unless the history of a rule that is applied tells. The other numbers are exact. A step fires for a row
that is not done at the step's slot. Deleted rows, and values from before an update, are not known.

A rule with "recovered" has a line for it. It counts the rows that were done after a step had fired. If the rule is
applied, it also counts the clocks that have moved after a step: the table does not tell them. A rule with "met" has a
line for the rows that were done before any step.

Without --until, a row with a step before its "since" counts from that step on.

--after tries other delays, each as the only step. --list lists each row and step instead of counts.`,
		Example: `  prescient rules test -f rules.yaml --since 2026-01-01 --until 2026-11-01
  prescient rules test -f rules.yaml --since 90d --after '24h,3 business days'
  prescient rules test -f rules.yaml --since 90d --list -o csv > alerts.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			o.rule = strings.Join(args, "")
			return runTest(c.Context(), o)
		},
	})
	ofFile := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && o.file != "" {
			return nil
		}
		return ofFile(c, args)
	}
	flags := c.Flags()
	cli.SinceVar(flags, &o.since, "since", "only rows that began to wait since")
	cli.SinceVar(flags, &o.until, "until", "only rows that began to wait before; default: now")
	flags.StringSliceVar(&o.after, "after", nil,
		"other `DELAYS` to try, with commas between: 24h,48h,3 business days; may be repeated")
	flags.BoolVar(&o.list, "list", false, "list each row for which a step would have fired")
	flags.VarP(cli.Choice(&f.Format, output.Table, output.JSON, asCSV), "output", "o",
		"`FORMAT` on stdout: table, json or csv")
	_ = c.MarkFlagRequired("since")
	return c
}

func runTest(ctx context.Context, o *testOptions) error {
	var after []rule.Delay
	for _, text := range o.after {
		d, err := rule.ParseDelay(text)
		if err != nil {
			return exit.Usagef("--after %w", err)
		}
		after = append(after, d)
	}
	file, err := o.read()
	if err != nil {
		return err
	}
	if file.Rules, err = o.chosen(file); err != nil {
		return err
	}
	return withPast(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store, g grid.Grid, now time.Time) error {
		cfg := backtest.Config{
			From: o.since.From(now), Now: now, Grid: g, After: after, List: o.list,
		}
		if o.until.Given() {
			cfg.To = o.until.From(now)
		}
		if until := cmp.Or(cfg.To, now); !cfg.From.Before(until) {
			return exit.Usagef("--since %s: must be before --until, %s", spoken.Instant(cfg.From), spoken.Instant(until))
		}
		schema, err := pgsql.ParseSchema(o.f.Config().Database.Schema)
		if err != nil {
			return err
		}
		show, end := progressOf(ctx, o.f)
		reports, err := testAll(ctx, store, db, schema, file, cfg, show)
		end()
		if len(reports) == 0 && err != nil {
			return o.naming(err)
		}
		return errors.Join(o.print(reports), o.naming(err))
	})
}

// withPast calls fn with what a test reads. In a database without prescient's schema, the slots are those of a new
// one: of the setting slots.width, or of its default.
func withPast(
	ctx context.Context, f *factory.Factory,
	fn func(db *sqlx.DB, store *rulestore.Store, g grid.Grid, now time.Time) error,
) error {
	db, err := database.Connect(ctx, f)
	if err != nil {
		return err
	}
	cfg := rulestore.Config{Schema: f.Config().Database.Schema}
	setting, err := database.Ready(ctx, f, db)
	if errors.Is(err, pgsql.ErrNotMigrated) {
		return withoutSchema(ctx, f, db, cfg, fn)
	}
	if err != nil {
		return err
	}
	store, err := rulestore.New(ctx, db, cfg)
	if err != nil {
		return err
	}
	return fn(db, store, setting.Grid, setting.Now())
}

func withoutSchema(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, cfg rulestore.Config,
	fn func(db *sqlx.DB, store *rulestore.Store, g grid.Grid, now time.Time) error,
) error {
	store, err := rulestore.NewReader(db, cfg)
	if err != nil {
		return err
	}
	slots, err := grid.New(cmp.Or(f.Config().Slots.Width, grid.DefaultWidth))
	if err != nil {
		return err
	}
	var now time.Time
	if err := db.GetContext(ctx, &now, "select clock_timestamp()"); err != nil {
		return fmt.Errorf("ask the database for its clock: %w", err)
	}
	return fn(db, store, slots, now.UTC())
}

// chosen returns the rules of the file that the argument RULE chooses.
func (o *testOptions) chosen(file rule.File) ([]rule.Rule, error) {
	var names []string
	for _, r := range file.Rules {
		if r.Name == o.rule {
			return []rule.Rule{r}, nil
		}
		names = append(names, r.Name)
	}
	if o.rule != "" {
		return nil, exit.Usagef("the file has no rule %s, but %s", o.rule, spoken.List(names))
	}
	return file.Rules, nil
}

// testAll tests each rule. The error joins those of rules that cannot be tested, which have no report.
func testAll(
	ctx context.Context, store *rulestore.Store, db *sqlx.DB, schema pgsql.Schema, file rule.File, cfg backtest.Config,
	show func(rulestore.Progress),
) ([]backtest.Report, error) {
	for name := range file.Calendars {
		if len(file.Calendars) == 1 {
			cfg.Calendar = name
		}
	}
	reports := make([]backtest.Report, 0, len(file.Rules))
	var errs []error
	for _, r := range file.Rules {
		applied, err := store.Understand(ctx, file, r)
		var recorded []string
		if err == nil {
			recorded, err = store.Recorded(ctx, applied)
		}
		if err == nil {
			applied.Calendars = file.Calendars // also those of --after
			if cfg.Record = nil; len(recorded) > 0 {
				cfg.Record = &backtest.Record{Schema: schema, Steps: recorded}
			}
			cfg.Progress = func(rows int64) { show(rulestore.Progress{Rule: r.Name, Rows: rows}) }
			var report backtest.Report
			report, err = backtest.Run(ctx, db, applied, cfg)
			if err = store.Explain(ctx, applied, err); err == nil {
				reports = append(reports, report)
			}
		}
		errs = append(errs, err)
	}
	return reports, errors.Join(errs...)
}

func (o *testOptions) print(reports []backtest.Report) error {
	switch {
	case o.list && o.f.Format != output.JSON:
		return o.printList(reports)
	case o.f.Format == asCSV:
		return o.printMonths(reports)
	}
	return o.f.Print(reports, func() error {
		var errs []error
		for i, r := range reports {
			if i > 0 {
				errs = append(errs, o.f.Lines(""))
			}
			errs = append(errs, o.printReport(r))
		}
		return errors.Join(errs...)
	})
}

// printList prints what would have fired, as CSV or as a table.
func (o *testOptions) printList(reports []backtest.Report) error {
	records, rows := [][]string{{"rule", "step", "number", "key", "due", "slot"}}, []table.Row{}
	for _, r := range reports {
		for _, f := range r.List {
			records = append(records, []string{
				r.Name, f.Step, strconv.Itoa(f.Number), f.Key, f.Due.Format(time.RFC3339Nano), spoken.Instant(f.Slot),
			})
			rows = append(rows, table.Row{f.Slot, r.Name, rule.Repetition(f.Step, f.Number), f.Key})
		}
	}
	if o.f.Format == asCSV {
		return csv.NewWriter(o.f.Out).WriteAll(records)
	}
	return o.f.Table(table.Row{"SLOT", "RULE", "STEP", "KEY"}, rows...)
}

// printMonths prints the counts of each rule, step and month as CSV.
func (o *testOptions) printMonths(reports []backtest.Report) error {
	rows := [][]string{{"rule", "step", "when", "month", "fired", "done_now", "met", "open", "again", "recorded"}}
	for _, r := range reports {
		for _, s := range append(r.Steps, r.Alternatives...) {
			for _, m := range s.Months {
				rows = append(rows, []string{
					r.Name, s.Name, s.When, monthText(m.Month), count(m.Fired), count(m.DoneNow), count(m.Met), count(m.Open),
					count(m.Again), count(m.Recorded),
				})
			}
		}
	}
	return csv.NewWriter(o.f.Out).WriteAll(rows)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func monthText(at time.Time) string { return at.Format("2006-01") }

// printReport prints what a rule would have done, for a person.
func (o *testOptions) printReport(r backtest.Report) error {
	var totals, months, slots []table.Row
	var lines []string
	if r.Unknown > 0 {
		lines = append(lines, fmt.Sprintf("%s left out: their data name no calendar of the file, or no time zone: %s",
			spoken.Count(r.Unknown, "row is", "rows are"), unknownNames(r.Names)))
	}
	for _, s := range append(r.Steps, r.Alternatives...) {
		totals = append(totals, recordedRow(r, s.Recorded, stepRow(s)))
	}
	for _, s := range r.Steps {
		for _, m := range s.Months {
			months = append(months, recordedRow(r, m.Recorded,
				table.Row{s.Name, monthText(m.Month), m.Fired, m.DoneNow, m.Met, m.Open, m.Again}))
		}
		for _, busiest := range s.Busiest(1) {
			slots = append(slots, table.Row{s.Name, firstKeys(s), len(s.Slots), busiest.Slot, busiest.Rows})
		}
		if len(s.Unrecorded) > 0 {
			lines = append(lines, fmt.Sprintf("%s has not fired for %s that it would have fired for, such as %s: the rule was "+
				"not applied yet, overdue has left the step out, or the row has changed since",
				s.Name, spoken.Count(s.Fired-s.Recorded, "row", "rows"), strings.Join(s.Unrecorded, ", ")))
		}
	}
	errs := []error{
		o.f.Lines(fmt.Sprintf("rule %s on table %s: %s began to wait from %s to %s", r.Name, r.Table,
			spoken.Count(r.Rows, "row", "rows"), spoken.Instant(r.From), spoken.Instant(r.To)), ""),
		o.f.Table(recordedRow(r, "RECORDED",
			table.Row{"STEP", "WHEN", "FIRED", "DONE NOW", "MET", "OPEN", "FIRED %", "AGAIN"}), totals...),
	}
	if len(lines) > 0 {
		errs = append(errs, o.f.Lines(""), o.f.Lines(lines...))
	}
	if len(months) > 0 {
		errs = append(errs, o.f.Lines(""),
			o.f.Table(recordedRow(r, "RECORDED",
				table.Row{"STEP", "MONTH", "FIRED", "DONE NOW", "MET", "OPEN", "AGAIN"}), months...))
	}
	if len(slots) > 0 {
		errs = append(errs, o.f.Lines(""),
			o.f.Table(table.Row{"STEP", "FIRST KEYS", "SLOTS", "BUSIEST SLOT", "ROWS"}, slots...))
	}
	return errors.Join(errs...)
}

// recordedRow adds a cell to a row of a table, if what the rule has fired counts.
func recordedRow(r backtest.Report, recorded any, row table.Row) table.Row {
	if !r.Recorded {
		return row
	}
	return append(row, recorded)
}

func firstKeys(s backtest.Step) string {
	return strings.Join(seq.Map(s.First, func(f backtest.Fired) string { return f.Key }), ", ")
}

// stepRow is the row of a step, an alternative, recovered or met. The last two have no share: they do not compete with
// being done in time.
func stepRow(s backtest.Step) table.Row {
	share, met := "", any(s.Met)
	follows := s.When == rule.RecoveredWhen || s.When == rule.MetWhen
	if follows {
		met = "-"
	}
	if decided := s.Fired + s.Met; decided > 0 && !follows {
		share = fmt.Sprintf("%.1f", 100*float64(s.Fired)/float64(decided))
	}
	name := s.Name
	if name == "" {
		name = "(--after)"
	}
	return table.Row{name, brief(s.When), s.Fired, s.DoneNow, met, s.Open, share, s.Again}
}
