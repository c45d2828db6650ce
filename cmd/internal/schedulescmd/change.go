package schedulescmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// specFlags are the flags that describe a schedule.
type specFlags struct {
	spec    schedule.Spec
	anchor  cli.Instant
	payload string
	c       *cobra.Command
}

func (o *specFlags) flags(c *cobra.Command) {
	o.c = c
	fs := c.Flags()
	fs.StringVar(&o.spec.Crontab, "crontab", "",
		"`EXPR` of five fields, or a name such as @daily, \"@every 90m\" (or 1d12h, 2w), \"@at 1647067401\"")
	fs.StringVar(&o.spec.Timezone, "timezone", "", "`NAME` such as Europe/Berlin; default: that of the crontab, or UTC")
	fs.StringVar(&o.payload, "payload", "", "a `JSON` value, the data of the events; - reads it from stdin")
	duration.Var(fs, &o.spec.Deadline, "deadline", 0, "drop an event that would be later than this; 0: none")
	duration.Var(fs, &o.spec.Spread, "spread", 0, "offset the schedule by a fixed part of this, chosen by its id")
	o.spec.Misfire = schedule.All
	fs.Var(cli.Choice(&o.spec.Misfire, schedule.All, schedule.Latest, schedule.Skip), "misfire",
		"which instants of missed slots are published: all, latest or skip")
	fs.StringVar(&o.spec.Act.SQL, "sql", "", "a `STATEMENT` that runs at each instant, instead of an event")
	fs.StringVar(&o.spec.Act.Role, "role", "", "the `ROLE` that runs the statement; default: the login of the run")
	duration.Var(fs, &o.spec.Act.Timeout, "timeout", 0, "how long the statement may run, up to 1h; 0: 5 minutes")
	fs.StringVar(&o.spec.Act.Job, "job", "", "a `JOB` of which a check is enqueued at each instant, instead of an event")
	fs.StringVar(&o.spec.Act.Notify, "notify", "", "a `RECEIVER` that gets a message at each instant, instead of an event")
	fs.StringVar(&o.spec.Act.Text, "text", "", "the `TEMPLATE` of the message, with {{.id}}, {{.at}} and {{.payload}}")
	fs.Var(&o.anchor, "anchor", "the first instant of @every; default: the start in a file, or the time of creation")
	fs.StringArrayVar(&o.spec.Exclude, "exclude", nil,
		"leave out `WHAT`: sat,sun, 2026-12-25, 2026-12-24..2027-01-01 or five fields; may be repeated; empty: nothing")
}

// apply changes a spec by the given flags.
func (o *specFlags) apply(f *factory.Factory, spec *schedule.Spec) (err error) {
	set := map[string]func(){
		"crontab":  func() { spec.Crontab = o.spec.Crontab },
		"timezone": func() { spec.Timezone = o.spec.Timezone },
		"payload":  func() { spec.Payload, err = cli.Payload(f.In, o.payload) },
		"deadline": func() { spec.Deadline = o.spec.Deadline },
		"spread":   func() { spec.Spread = o.spec.Spread },
		"misfire":  func() { spec.Misfire = o.spec.Misfire },
		"anchor":   func() { spec.Anchor = o.anchor.At },
		"sql":      func() { spec.Act.SQL = o.spec.Act.SQL },
		"role":     func() { spec.Act.Role = o.spec.Act.Role },
		"timeout":  func() { spec.Act.Timeout = o.spec.Act.Timeout },
		"job":      func() { spec.Act.Job = o.spec.Act.Job },
		"notify":   func() { spec.Act.Notify = o.spec.Act.Notify },
		"text":     func() { spec.Act.Text = o.spec.Act.Text },
		"exclude": func() {
			spec.Exclude = slices.DeleteFunc(o.spec.Exclude, func(text string) bool { return text == "" })
		},
	}
	for name, take := range set {
		if o.c.Flags().Changed(name) {
			take()
		}
	}
	return err
}

// ofFiles says which fields of a schedule have no flag.
const ofFiles = `A file of "schedules apply" has more fields: start, end, max_runs, deadline_from and paused.`

func newCmdCreate(f *factory.Factory) *cobra.Command {
	var o specFlags
	c := f.WithOutput(&cobra.Command{
		Use:   "create ID",
		Short: "Create a schedule; its first instant is the first one after now",
		Long:  "Create a schedule; its first instant is the first one after now. " + ofFiles,
		Example: `  prescient schedules create report-42 --crontab '0 9 * * mon-fri' \
    --timezone Europe/Berlin --payload '{"report": 42}'
  prescient schedules create cleanup --crontab '@every 90m' --misfire latest
  prescient schedules create sale --crontab '@at 1893456000' --deadline 1h
  prescient schedules create purge --crontab '0 3 * * *' \
    --sql "delete from public.session where seen_at < now() - interval '9 days'"
  prescient schedules create lunch --crontab '0 11 * * *' \
    --exclude sat,sun --exclude 2026-12-24..2026-12-31`,
		Args: cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.c.Flags().Changed("sql") && o.spec.Act.SQL == "" {
				return exit.Usagef("--sql must not be empty: without a statement, the schedule would publish an event")
			}
			spec := schedule.Spec{ID: args[0]}
			if err := o.apply(f, &spec); err != nil {
				return err
			}
			return perform.With(c.Context(), f, func(s *action.Store) error {
				created, err := s.Schedules.Create(c.Context(), s.DB, spec)
				if errors.Is(err, schedule.ErrExists) {
					return fmt.Errorf("%w; change it with: %s schedules update %s", err, f.Self(), spec.ID)
				}
				return printSchedule(c.Context(), f, s, created, err)
			})
		},
	})
	o.flags(c)
	_ = c.MarkFlagRequired("crontab")
	return c
}

func newCmdUpdate(f *factory.Factory) *cobra.Command {
	var o specFlags
	var version cli.Count
	c := f.WithOutput(&cobra.Command{
		Use:   "update ID",
		Short: "Change what the flags name, and nothing else",
		Long: `Change what the flags name, and nothing else. A new crontab, timezone, anchor, spread or
exclude takes effect from now; other changes keep the next instant. ` + ofFiles,
		Example: `  prescient schedules update report-42 --crontab '0 10 * * mon-fri'
  prescient schedules update report-42 --payload '{"report": 43}' --if-version 2`,
		Args: cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return updateSchedule(c.Context(), f, args[0], &o, int(version))
		},
	})
	o.flags(c)
	ifVersionVar(c, &version)
	c.MarkFlagsOneRequired("crontab", "timezone", "payload", "deadline", "spread", "misfire", "anchor", "exclude",
		"sql", "role", "timeout", "job", "notify", "text")
	return c
}

// updateSchedule changes the version that it has read, so that a concurrent change is not lost.
func updateSchedule(ctx context.Context, f *factory.Factory, id string, o *specFlags, version int) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		was, err := s.Schedules.Get(ctx, s.DB, id)
		if err != nil {
			return err
		}
		spec := was.Spec
		if err := o.apply(f, &spec); err != nil {
			return err
		}
		if version == schedule.AnyVersion {
			version = was.Version
		}
		updated, err := s.Schedules.Update(ctx, s.DB, spec, version)
		return printSchedule(ctx, f, s, updated, err)
	})
}

func ifVersionVar(c *cobra.Command, version *cli.Count) {
	c.Flags().Var(version, "if-version", "fail unless the schedule has version N; default: any version")
	c.Flags().Lookup("if-version").DefValue = ""
}

func newCmdDelete(f *factory.Factory) *cobra.Command {
	var version cli.Count
	c := f.WithOutput(&cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a schedule; its events are no longer published",
		Example: `  prescient schedules delete report-42`,
		Args:    cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return perform.With(c.Context(), f, func(s *action.Store) error {
				if err := s.Schedules.Delete(c.Context(), s.DB, args[0], int(version)); err != nil {
					return err
				}
				view := deletedView{args[0], true}
				return f.Say(view, view.ID+" is deleted")
			})
		},
	})
	ifVersionVar(c, &version)
	return c
}

// deletedView is a schedule that is gone, as JSON.
type deletedView struct {
	ID      string `json:"id"`      // of the schedule
	Deleted bool   `json:"deleted"` // true
}

func newCmdPause(f *factory.Factory) *cobra.Command {
	return changeSchedule(f, "pause", "Pause a schedule: it publishes nothing until it is resumed",
		func(id string, version int) action.Action { return action.PauseSchedule{ID: id, Version: version} })
}

func newCmdResume(f *factory.Factory) *cobra.Command {
	return changeSchedule(f, "resume", "End a pause; the next instant is the first one after now",
		func(id string, version int) action.Action { return action.ResumeSchedule{ID: id, Version: version} })
}

func changeSchedule(
	f *factory.Factory, verb, short string, of func(id string, version int) action.Action,
) *cobra.Command {
	var version cli.Count
	c := perform.OnNamed(f, &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  prescient schedules " + verb + " report-42",
	}, "ID", "", func(id string) action.Action { return of(id, int(version)) })
	ifVersionVar(c, &version)
	return c
}
