// Package schedulescmd has the commands that read and change recurring schedules.
package schedulescmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// NewCmdSchedules returns the command schedules, with those below it.
func NewCmdSchedules(f *factory.Factory) *cobra.Command {
	return cli.Group("schedules", "Read and change recurring schedules",
		newCmdCreate(f), newCmdList(f), newCmdShow(f), newCmdUpdate(f), newCmdDelete(f),
		newCmdPause(f), newCmdResume(f), newCmdPreview(f), newCmdApply(f),
		newCmdTrigger(f), newCmdBackfill(f))
}

type listOptions struct {
	filter schedule.Filter
	limit  cli.Count
}

func newCmdList(f *factory.Factory) *cobra.Command {
	var o listOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List schedules in the order of their ids",
		Long:  "List schedules in the order of their ids, all of them, or those whose id begins with PREFIX.",
		Example: `  prescient schedules list report-
  prescient schedules list --state paused --output json | jq '.items[].id'
  prescient schedules list --limit 1000 --after report-4711  # the next page`,
		Args: cli.AtMost("PREFIX"),
		RunE: func(c *cobra.Command, args []string) error {
			o.filter.Prefix = strings.Join(args, "")
			return listSchedules(c.Context(), f, o)
		},
	})
	fs := c.Flags()
	fs.StringVar(&o.filter.After, "after", "", "only ids after this `ID`")
	fs.Var(cli.Choice(&o.filter.State, schedule.Active, schedule.Paused, schedule.Ended), "state",
		"only schedules that are active, paused or ended")
	cli.CountVar(fs, &o.limit, "limit", 100, "maximum number of schedules")
	return c
}

func listSchedules(ctx context.Context, f *factory.Factory, o listOptions) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		o.filter.Limit = output.OneMore(o.limit)
		var views []scheduleapi.View
		for v, err := range s.Schedules.List(ctx, s.DB, o.filter) {
			if err != nil {
				return err
			}
			views = append(views, scheduleapi.NewView(v))
		}
		views = output.Limited(ctx, f.Log(), views, o.limit, func(v scheduleapi.View) string { return spoken.Word(v.ID) })
		header := table.Row{
			"ID", "STATE", "LAST", "NEXT", "CRONTAB", "DOES", output.Droppable("TIMEZONE"), output.Droppable("VERSION"),
			output.Droppable("DROPPED"), output.Droppable("PAUSED BY"), "LAST ERROR",
		}
		err := output.List(f.Printer, views, header, func(v scheduleapi.View) table.Row {
			return table.Row{
				v.ID, stateText(v), v.Last, v.Next, v.Crontab, does(v), v.Timezone, v.Version, v.Dropped,
				v.PausedBy, spoken.Error(v.PresentError()),
			}
		})
		if err == nil && len(views) > 0 && !f.IsJSON() {
			err = printPublishingPaused(f, views[0])
		}
		return err
	})
}

func newCmdShow(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:     "show ID",
		Short:   "Show one schedule",
		Example: `  prescient schedules show report-42`,
		Args:    cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return perform.With(c.Context(), f, func(s *action.Store) error {
				found, err := s.Schedules.Get(c.Context(), s.DB, args[0])
				told, wrong := messages(c.Context(), f, s.DB, found)
				return printSchedule(c.Context(), f, s, found, cmp.Or(err, wrong), told...)
			})
		},
	})
}

// ofStatement marks an error as one that needs the role of an operator, if it is about a statement.
func ofStatement(err error) error {
	if errors.Is(err, schedule.ErrStatement) {
		return &database.RoleError{Err: err, Role: pg.Operator}
	}
	return err
}

// mostMessages is how many messages of a schedule are shown.
const mostMessages = 5

// messages returns rows with the newest messages of a schedule that notifies a receiver.
func messages(ctx context.Context, f *factory.Factory, db *sqlx.DB, s schedule.Schedule) (rows []table.Row, err error) {
	if s.Act.Notify == "" {
		return nil, nil
	}
	list, err := outbox.New(db, f.Schema()).Messages(reserved.Caller{}, ctx, s.ID)
	for _, told := range list[max(0, len(list)-mostMessages):] {
		rows = append(rows, table.Row{"message", spoken.Instant(told.At) + "  " + view.Told(told)})
	}
	return rows, err
}

// lacking has a schedule for each job that this binary lacks, by the name of the job.
type lacking map[string]string

// add notes the job of a schedule, if this binary lacks it, and the job is not noted yet.
func (l lacking) add(f *factory.Factory, id, job string) {
	if _, known := l[job]; job != "" && !known && len(l) < maxLacking && !checks.Has(f, job) {
		l[job] = id
	}
}

// maxLacking bounds the jobs of a file, and so memory.
const maxLacking = 100

// warn warns of the jobs that the database lacks, too. The schedules are written by then, so the command goes on if the
// database cannot be asked.
func (l lacking) warn(ctx context.Context, f *factory.Factory, s *action.Store) {
	for _, job := range slices.Sorted(maps.Keys(l)) {
		checks.WarnOfJob(ctx, f, s.DB, s.Client, job, func(err error) error {
			return fmt.Errorf("schedule %s: job: %w", l[job], err)
		})
	}
}

// printSchedule prints the schedule that a call has returned, with rows below it.
func printSchedule(
	ctx context.Context, f *factory.Factory, on *action.Store, s schedule.Schedule, err error, rows ...table.Row,
) error {
	if err != nil {
		return ofStatement(err)
	}
	checks.WarnOfReceiver(ctx, f, s.Act.Notify, "schedule "+s.ID)
	jobs := lacking{}
	jobs.add(f, s.ID, s.Act.Job)
	jobs.warn(ctx, f, on)
	v := scheduleapi.NewView(s)
	return f.Print(v, func() error {
		err := f.Table(nil, append([]table.Row{
			{"id", v.ID},
			{"state", stateText(v)},
			{"paused", pausedText(v)},
			{"last", v.Last},
			{"next", v.Next},
			{"slot", v.Slot},
			{"crontab", v.Crontab},
			{"timezone", v.Timezone},
			{"payload", string(v.Payload)},
			{"deadline", output.OrNone(s.Deadline)},
			{"deadline from", deadlineFrom(s.DeadlineFrom)},
			{"spread", output.OrNone(s.Spread)},
			{"misfire", string(v.Misfire)},
			{"anchor", v.Anchor},
			{"start", v.Start},
			{"end", v.End},
			{"runs", runs(s)},
			{"exclude", strings.Join(v.Exclude, "; ")},
			{"version", v.Version},
			{"dropped", v.Dropped},
			{"errors in a row", v.ErrorCount},
			{"last error", spoken.Error(v.LastError)},
			{"created", v.CreatedAt},
			{"updated", v.UpdatedAt},
		}, append(actRows(s), rows...)...)...)
		return errors.Join(err, printPublishingPaused(f, v))
	})
}

// actRows returns the rows of a schedule that does something else than publish an event.
func actRows(s schedule.Schedule) (rows []table.Row) {
	switch act := s.Act; {
	case act.SQL != "":
		rows = append(rows, table.Row{"sql", act.SQL}, table.Row{"role", cmp.Or(act.Role, "the login of the run")},
			table.Row{"timeout", spoken.Duration(cmp.Or(act.Timeout, schedule.DefaultTimeout))})
		if !s.Last.IsZero() {
			rows = append(rows, table.Row{"rows at the last instant", s.Rows})
		}
	case act.Job != "":
		rows = append(rows, table.Row{"job", act.Job})
	case act.Notify != "":
		rows = append(rows, table.Row{"notify", act.Notify}, table.Row{"text", cmp.Or(act.Text, "the default")})
	}
	return rows
}

// does names what a schedule does at each instant.
func does(v scheduleapi.View) string {
	switch {
	case v.SQL != "":
		return "sql"
	case v.Job != "":
		return "job " + v.Job
	case v.Notify != "":
		return "notify " + v.Notify
	}
	return "event"
}

// stateText returns the state of a schedule, and whether it publishes, for a person.
func stateText(v scheduleapi.View) string {
	if v.State == schedule.Active && v.PublishingPausedAt != nil {
		return "active, publishing paused"
	}
	return string(v.State)
}

// pausedText returns since when a schedule is paused, and by whom; empty: it is not paused.
func pausedText(v scheduleapi.View) string {
	if v.PausedAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("since %s by %s", spoken.Instant(v.PausedAt), v.PausedBy)
}

// printPublishingPaused prints whether no schedule publishes, and how to change that.
func printPublishingPaused(f *factory.Factory, v scheduleapi.View) error {
	if v.PublishingPausedAt == nil {
		return nil
	}
	return f.Sentence(fmt.Sprintf("no schedule publishes: job %q is paused since %s; resume it with: %s jobs resume %[1]s",
		schedule.JobExec, spoken.Instant(*v.PublishingPausedAt), f.Self()))
}

func deadlineFrom(from schedule.DeadlineFrom) string {
	return cmp.Or(string(from), "instant if slots are a minute wide or less, else slot")
}

func runs(s schedule.Schedule) string {
	if s.MaxRuns == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d of %d", s.Runs, s.MaxRuns)
}
