package schedulescmd

import (
	"bufio"
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

type previewOptions struct {
	spec   schedule.Spec
	span   cli.Span
	anchor cli.Instant
	width  time.Duration
}

func newCmdPreview(f *factory.Factory) *cobra.Command {
	var o previewOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "preview",
		Short: "Print the instants of a crontab, one a line, and the slots they fall into",
		Long: `Print the instants of a crontab from --since up to but not including --until, one a line, in UTC. After a tab
follows the slot in which each is published. For a schedule with a time zone, after another tab, follows the local time.
The command needs no database if --width or slots.width is set.`,
		Example: `  prescient schedules preview --crontab '30 2 * * *' --timezone Europe/Berlin \
    --since 2026-03-27 --until 2026-04-01
  prescient schedules preview --crontab '@every 90m' --anchor 2026-01-01 \
    --since 2026-03-01 --until 2026-03-02 --width 15m`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("preview takes a crontab, as --crontab, and not the ID of a schedule. To see the schedule: "+
					"%s schedules show %s", f.Self(), spoken.Word(args[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return previewSchedule(c.Context(), f, o) },
	})
	fs := c.Flags()
	fs.StringVar(&o.spec.Crontab, "crontab", "", "`EXPR` as in create")
	fs.StringVar(&o.spec.Timezone, "timezone", "", "`NAME` such as Europe/Berlin; default: that of the crontab, or UTC")
	fs.Var(&o.anchor, "anchor", "the first instant of @every; default: --since")
	fs.StringArrayVar(&o.spec.Exclude, "exclude", nil, "leave out `WHAT`, as in create; may be repeated")
	o.span.Flags(fs, "print from this instant on", "stop before this instant")
	duration.Var(fs, &o.width, "width", 0, "distance between two slots; default: the database's")
	for _, name := range []string{"crontab", "since", "until"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

func previewSchedule(ctx context.Context, f *factory.Factory, o previewOptions) error {
	since, until, err := o.span.At(time.Now()) //nolint:forbidigo // nothing is published, and there may be no database
	if err != nil {
		return err
	}
	o.spec.Anchor = since
	if o.anchor.Given() {
		o.spec.Anchor = o.anchor.At
	}
	g, err := previewGrid(ctx, f, o.width)
	if err != nil {
		return err
	}
	instants, err := schedule.Preview(o.spec, g, since, until)
	if err != nil {
		return err
	}
	zone, err := crontab.Zone(o.spec.Crontab, o.spec.Timezone)
	if err != nil {
		return err
	}
	if !f.IsJSON() {
		return printInstants(ctx, f, instants, zone)
	}
	views := []previewView{}
	for at, slot := range instants {
		views = append(views, previewView{at, slot, at.In(zone)})
	}
	return f.Print(views, nil)
}

// previewView is an instant of a schedule as JSON.
type previewView struct {
	Instant time.Time `json:"instant"` // UTC
	Slot    time.Time `json:"slot"`    // the slot that publishes it; UTC
	Local   time.Time `json:"local"`   // the instant by the clocks of the schedule's time zone: the only one not in UTC
}

// printInstants prints each instant at once, because their number is unbounded.
func printInstants(
	ctx context.Context, f *factory.Factory, instants iter.Seq2[time.Time, time.Time], zone *time.Location,
) error {
	w := bufio.NewWriter(f.Out)
	for at, slot := range instants {
		if ctx.Err() != nil {
			break
		}
		line := spoken.Instant(at) + "\t" + spoken.Instant(slot)
		if zone != time.UTC {
			line += "\t" + at.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
		}
		if _, err := w.WriteString(line + "\n"); err != nil {
			return err
		}
	}
	return w.Flush()
}

// previewGrid returns the grid of a width, of the settings, or of the database.
func previewGrid(ctx context.Context, f *factory.Factory, width time.Duration) (g grid.Grid, err error) {
	if width = cmp.Or(width, f.Config().Slots.Width); width != 0 {
		if g, err = grid.New(width); err != nil {
			return g, exit.Usagef("--width: %w", err)
		}
		return g, nil
	}
	err = database.With(ctx, f, func(_ *sqlx.DB, s pgsql.Setting) error {
		g = s.Grid
		return nil
	})
	return g, err
}
