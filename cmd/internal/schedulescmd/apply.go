package schedulescmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

type applyOptions struct {
	file       string
	dryRun     bool
	prune      bool
	maxDeletes cli.Count
}

func newCmdApply(f *factory.Factory) *cobra.Command {
	var o applyOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "apply",
		Short: "Create and update schedules from a file",
		Long: `Create the schedules of a YAML or JSON file that are new and update the ones that differ,
in one transaction. Equal schedules are not touched. A field that a schedule leaves out gets its
default, but anchor and paused stay unchanged. Schedules that the file does not have stay, unless
--prune is given: then they are deleted.

  id: report-42
  crontab: "0 9 * * mon-fri"
  payload: {report: 42}          # or text, or any other value
  ---
  id: lunch
  crontab: "0 11 * * *"
  timezone: Europe/Berlin
  deadline: 2h
  deadline_from: slot            # or instant; default: what suits the width
  spread: 10m
  misfire: latest                # all, latest or skip
  anchor: 2026-01-01T00:00:00Z   # of @every
  start: 2026-03-01T00:00:00Z
  end: 2027-01-01T00:00:00Z
  max_runs: 100
  exclude: [sat, sun, 2026-12-24..2026-12-31, "* 0-5 * * *"]
  paused: false                  # left out: unchanged
  ---
  id: purge
  crontab: "0 3 * * *"
  sql: delete from public.session where seen_at < now() - interval '30 days'
  role: janitor                  # default: the login of the run
  timeout: 10m                   # of the statement, up to 1h; default: 5m
  ---
  id: reorder
  crontab: "@hourly"
  job: stock.check               # enqueues a check of the job
  ---
  id: standup
  crontab: "55 8 * * mon-fri"
  notify: ops                    # sends a message to a receiver of the settings
  text: "Standup in 5 minutes"

In place of a schedule, a document may have a list of them, as "schedules: [...]". The file may be of any length.`,
		Example: `  prescient schedules apply -f schedules.yaml --dry-run
  prescient schedules apply -f schedules.yaml
  prescient schedules apply -f all.yaml --prune --max-deletes 500
  generate | prescient schedules apply -f -`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return applySchedules(c.Context(), f, o) },
	})
	fs := c.Flags()
	fs.StringVarP(&o.file, "file", "f", "", "the `FILE`; - reads stdin")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	fs.BoolVar(&o.prune, "prune", false, "delete the schedules that the file does not have")
	cli.CountVar(fs, &o.maxDeletes, "max-deletes", 10,
		"with --prune, change nothing when more than N schedules would be deleted")
	_ = c.MarkFlagRequired("file")
	return factory.Patient(c)
}

// appliedView counts and lists the changes of apply, as JSON.
type appliedView struct {
	DryRun    bool          `json:"dry_run"`
	Created   int           `json:"created"`    // schedules
	Updated   int           `json:"updated"`    // schedules
	Deleted   int           `json:"deleted"`    // schedules that the file does not have, with --prune
	Unchanged int           `json:"unchanged"`  // schedules
	Changes   []appliedItem `json:"changes"`    // at most 10,000
	NotListed int           `json:"not_listed"` // changes that are not listed, after the first 10,000
}

type appliedItem struct {
	ID     string          `json:"id"`     // of the schedule
	Action schedule.Action `json:"action"` // create, update or delete
}

// maxApplied bounds the listed changes, and so memory.
const maxApplied = 10_000

func applySchedules(ctx context.Context, f *factory.Factory, o applyOptions) error {
	file, err := f.Open(o.file)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	// Everything read and written becomes garbage at once, and there may be much of it. Memory
	// matters more here than time.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	return perform.With(ctx, f, func(s *action.Store) error {
		view := appliedView{DryRun: o.dryRun, Changes: []appliedItem{}}
		options := schedule.ApplyOptions{
			Prune: o.prune, MaxDeletes: int(o.maxDeletes), DryRun: o.dryRun,
			Changed: func(id string, action schedule.Action) {
				if len(view.Changes) == maxApplied {
					view.NotListed++
					return
				}
				view.Changes = append(view.Changes, appliedItem{id, action})
			},
		}
		var done schedule.ApplyResult
		lacks := lacking{}
		err := tx.In(ctx, s.DB, func(db tx.DB) (err error) { // once, because the file can be read once
			if err := jobs.SetActor(ctx, db.(jobs.Tx), database.Actor()); err != nil {
				return err
			}
			done, err = s.Schedules.Apply(ctx, db, namingFile(o.file, warning(ctx, f, readSchedules(file), lacks)), options)
			return err
		})
		if e, ok := errors.AsType[*schedule.PruneError](err); ok {
			return fmt.Errorf("%w: check them with --dry-run, then give --max-deletes %d; nothing was changed", err, e.Deletes)
		}
		if err != nil {
			return ofStatement(err)
		}
		lacks.warn(ctx, f, s)
		view.Created, view.Updated, view.Deleted, view.Unchanged = done.Created, done.Updated, done.Deleted, done.Unchanged
		return printApplied(f, view)
	})
}

// namingFile adds the name of a file to its errors.
func namingFile(name string, all iter.Seq2[schedule.Spec, error]) iter.Seq2[schedule.Spec, error] {
	return func(yield func(schedule.Spec, error) bool) {
		for spec, err := range all {
			if err != nil {
				err = exit.Usagef("%s: %w", name, err)
			}
			if !yield(spec, err) {
				return
			}
		}
	}
}

// warning warns of receivers that the settings do not have. It adds to lacks the jobs that this binary lacks: the
// database is asked for them later, because its connection is busy while the file is read.
func warning(
	ctx context.Context, f *factory.Factory, all iter.Seq2[schedule.Spec, error], lacks lacking,
) iter.Seq2[schedule.Spec, error] {
	return func(yield func(schedule.Spec, error) bool) {
		for spec, err := range all {
			checks.WarnOfReceiver(ctx, f, spec.Act.Notify, "schedule "+spec.ID)
			lacks.add(f, spec.ID, spec.Act.Job)
			if !yield(spec, err) {
				return
			}
		}
	}
}

func printApplied(f *factory.Factory, view appliedView) error {
	return f.Print(view, func() error {
		err := output.Rows(f.Printer, view.Changes, table.Row{"ID", "ACTION"}, func(v appliedItem) table.Row {
			return table.Row{v.ID, string(v.Action)}
		})
		if err != nil {
			return err
		}
		if view.NotListed > 0 {
			if err := f.Lines(fmt.Sprintf("and %d more", view.NotListed)); err != nil {
				return err
			}
		}
		note := ""
		if view.DryRun {
			note = " (dry run: nothing was written)"
		}
		return f.Lines("",
			fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged%s",
				view.Created, view.Updated, view.Deleted, view.Unchanged, note))
	})
}
