// Package eventscmd has the commands that read the outbox and acknowledge its events, and that list
// and send dead letters.
package eventscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdEvents returns the command events, with those below it.
func NewCmdEvents(f *factory.Factory) *cobra.Command {
	return cli.Group("events",
		"Read and forward the events of the outbox, show its consumers, and deal with dead letters",
		newCmdTail(f), newCmdAck(f), newCmdForget(f), newCmdConsumers(f), newCmdForward(f),
		newCmdPrune(f), newCmdDead(f), newCmdResend(f), newCmdDiscard(f))
}

func withOutbox(ctx context.Context, f *factory.Factory, fn func(box *outbox.Outbox) error) error {
	return database.With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error { return fn(outbox.New(db, f.Schema())) })
}

// position is a flag that takes a position in the outbox.
type position struct{ outbox.Position }

// Type is the placeholder in help.
func (p *position) Type() string { return "POSITION" }

// String is empty for the position before all events.
func (p *position) String() string {
	if p.Position == (outbox.Position{}) {
		return ""
	}
	return p.Position.String()
}

// Set parses a position.
func (p *position) Set(text string) (err error) {
	p.Position, err = outbox.ParsePosition(text)
	return err
}

type tailOptions struct {
	after    position
	consumer string
	limit    cli.Count
	follow   bool
	newest   cli.Count // begin with the newest that many; 0: after what after and consumer say
}

func newCmdTail(f *factory.Factory) *cobra.Command {
	var o tailOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "tail",
		Short: "Print the newest events in the outbox, or the events after a position, one a line",
		Long: `Print events in the outbox, one a line, in their order: the position, the time, the id, the
type and the data of each. With --output json each line is a CloudEvent with its position. Without
--after and --consumer, these are the newest --limit events. Otherwise they begin after --after, or
after the last event that --consumer has acknowledged; --after 0-0 begins with the oldest. A consumer
is known from its first "events ack" on. If there are more events than --limit, the log says so. On
a terminal, long lines are cut.

With --follow the command then waits for more events until it is stopped. --limit N then means to
begin with the newest N events or, with --after or --consumer, to stop after N.

An open transaction that has written something, anywhere on the server, holds back the events after it.

The command fails if events were deleted that --after or --consumer has not read yet. The error names them and what to
do next.`,
		Example: `  prescient events tail --follow
  prescient events tail --consumer billing --limit 500 --output json
  prescient events tail --after 7311-42`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("after") && !c.Flags().Changed("consumer") {
				o.newest = o.limit
			}
			if o.follow && !c.Flags().Changed("limit") {
				o.limit = 0
			}
			return tailEvents(c.Context(), f, o)
		},
	})
	fs := c.Flags()
	fs.Var(&o.after, "after", "begin after this one")
	cli.WordVar(fs, &o.consumer, "consumer", "begin after what this `CONSUMER` has acknowledged")
	cli.CountVar(fs, &o.limit, "limit", 100, "print at most N events; with --follow, see above")
	fs.BoolVarP(&o.follow, "follow", "f", false, "wait for more")
	c.MarkFlagsMutuallyExclusive("after", "consumer")
	return c
}

const (
	// tailPage is the number of events in one read.
	tailPage = 1000
	// tailPause is the pause of --follow when it has read all events.
	tailPause = time.Second
)

func tailEvents(ctx context.Context, f *factory.Factory, o tailOptions) error {
	return withOutbox(ctx, f, func(box *outbox.Outbox) error {
		after, err := tailStart(ctx, f, box, o)
		if err != nil {
			return toGoOn(f, err, o.consumer)
		}
		left := int(o.limit)
		if o.newest > 0 {
			page, err := box.Newest(ctx, output.OneMore(o.newest))
			if n := int(o.newest); len(page) > n {
				page = page[len(page)-n:]
				if !o.follow {
					f.Log().WarnContext(ctx, "there are older ones: "+
						"give a larger --limit, or --after 0-0 to begin with the oldest")
				}
			}
			if err == nil {
				err = printEvents(f, page)
			}
			if err != nil || !o.follow {
				return err
			}
			if o.limit = 0; len(page) > 0 { // which has said where to begin
				after = page[len(page)-1].Position
			}
		}
		for o.limit == 0 || left > 0 {
			n := tailPage
			if o.limit > 0 {
				n = min(n, left)
			}
			page, err := box.Read(ctx, after, n)
			if o.follow && ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return toGoOn(f, err, o.consumer)
			}
			if err := printEvents(f, page); err != nil {
				return err
			}
			if len(page) > 0 {
				after = page[len(page)-1].Position
			}
			left -= len(page)
			if !o.follow && len(page) < n {
				return nil
			}
			if len(page) == n {
				continue
			}
			if !elapsed.Sleep(ctx, tailPause) {
				return nil
			}
		}
		return noteMore(ctx, f, box, after, int(o.limit))
	})
}

// noteMore logs how to go on, if there are more events after the limit.
func noteMore(ctx context.Context, f *factory.Factory, box *outbox.Outbox, after outbox.Position, shown int) error {
	page, err := box.Read(ctx, after, 1)
	if err == nil && len(page) > 0 {
		output.More(ctx, f.Log(), shown, after.String())
	}
	return err
}

// tailStart returns the position to begin after.
func tailStart(ctx context.Context, f *factory.Factory, box *outbox.Outbox, o tailOptions) (outbox.Position, error) {
	if o.consumer == "" {
		return o.after.Position, nil
	}
	c, err := box.Consumer(ctx, o.consumer)
	if errors.Is(err, outbox.ErrNoConsumer) {
		return outbox.Position{}, exit.Usagef("there is no consumer %s%s. "+
			"To begin with the oldest event: %s events ack %s 0-0",
			spoken.Word(o.consumer), action.OtherConsumers(ctx, box, f.Self()), f.Self(), spoken.Word(o.consumer))
	}
	if err == nil && c.Ahead {
		err = fmt.Errorf("consumer %q: %w", o.consumer, outbox.ErrConsumerAhead)
	}
	if err == nil {
		err = box.Lost(ctx, c.Position)
	}
	return c.Position, err
}

// toGoOn says how a reader goes on that has lost events, or is ahead of the outbox.
func toGoOn(f *factory.Factory, err error, consumer string) error {
	if errors.Is(err, outbox.ErrConsumerAhead) {
		return fmt.Errorf("%w: %s migrate up", err, f.Self())
	}
	lost, ok := errors.AsType[*outbox.LostError](err)
	switch {
	case !ok:
		return err
	case consumer == "":
		return fmt.Errorf("%w: %s events tail --after %s", err, f.Self(), lost.UpTo)
	}
	return fmt.Errorf("%w: %s events ack %s %s", err, f.Self(), spoken.Word(consumer), lost.UpTo)
}

func printEvents(f *factory.Factory, page []outbox.Stored) error {
	lines := make([]string, len(page))
	for i, s := range page {
		if f.IsJSON() {
			line, err := eventLine(s)
			if err != nil {
				return err
			}
			lines[i] = line
			continue
		}
		lines[i] = fmt.Sprint(s.Position, "  ", output.Cell(s.Time), "  ", output.Cell(s.ID), "  ", output.Cell(s.Type), "  ",
			output.Cell(string(s.Data)))
		if width := f.Width(); width > 0 {
			lines[i] = output.Cut(lines[i], width)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return f.Lines(lines...)
}

// eventLine is a CloudEvent with its position as an attribute of ours.
func eventLine(s outbox.Stored) (string, error) {
	text, err := json.Marshal(s.Event)
	if err != nil {
		return "", fmt.Errorf("event %s: %w", s.Position, err)
	}
	return fmt.Sprintf(`{"position":%q,%s`, s.Position.String(), plain.JSON(text[1:])), nil
}

func newCmdAck(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "ack CONSUMER POSITION",
		Short: "Record how far a consumer has read the outbox",
		Long: `Record that a consumer has dealt with every event up to and including a position that
"events tail" has printed. It only goes forward. The first ack makes the consumer known. From then
on "events prune" removes nothing that the consumer has not acknowledged, until "events forget", or
unless --unread is given.`,
		Example: `  prescient events ack billing 7311-42`,
		Args:    cli.Exactly("CONSUMER", "POSITION"),
		RunE: func(c *cobra.Command, args []string) error {
			var upTo position
			if err := upTo.Set(args[1]); err != nil {
				return exit.Usagef("POSITION %s: %w", args[1], err)
			}
			return withOutbox(c.Context(), f, func(box *outbox.Outbox) error {
				consumer, err := box.Ack(c.Context(), args[0], upTo.Position)
				if err != nil {
					return toGoOn(f, err, args[0])
				}
				return printConsumers(f, []outbox.Consumer{consumer})
			})
		},
	})
}

func newCmdForget(f *factory.Factory) *cobra.Command {
	return perform.OnNamed(f, &cobra.Command{
		Use:   "forget CONSUMER",
		Short: "Forget a consumer, whose events then need not be kept",
		Long: `Forget a consumer: the outbox no longer keeps events for it. A destination loses its dead letters and
the refused events that are tried again, too. If the settings still have it, it begins again with new events.
Without --yes the command only prints what the consumer has not got yet.`,
		Example: `  prescient events forget billing
  prescient events forget billing --yes`,
	}, "CONSUMER", "forget it", func(name string) action.Action { return action.ForgetConsumer{Consumer: name} })
}

func newCmdConsumers(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:     "consumers",
		Short:   "List who reads the outbox, and how far they are",
		Example: `  prescient events consumers`,
		Args:    cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return withOutbox(c.Context(), f, func(box *outbox.Outbox) error {
				list, err := box.Consumers(c.Context())
				if err != nil {
					return err
				}
				return printConsumers(f, list)
			})
		},
	})
}

func printConsumers(f *factory.Factory, list []outbox.Consumer) error {
	return output.List(f.Printer, list, table.Row{"CONSUMER", "POSITION", "ACKED AT"},
		func(v outbox.Consumer) table.Row {
			return table.Row{v.Name, v.Position.String(), v.AckedAt}
		})
}
