package eventscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/event/forward"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newCmdForward(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "forward",
		Short: "Send the events of the outbox to the destinations",
		Long: `Send the events of the outbox to events.destination, events.destinations and the receivers, each
its own, and end when they have them. A daemon does so all the time, and "run" and "catch-up" while they run, so this
command is for a test, and for a destination that was mended: it tries refused events at once. It leaves a destination
that another process sends to, and exits 2 if nothing was sent because of that. It exits 1 if a destination
did not take all of its events: they are sent again, or are dead letters. It also exits 1 if an open transaction holds
back events for 3 s. They are sent later. It exits 4 if a signal stops it.`,
		Example: `  prescient events forward`,
		Args:    cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			err := database.With(c.Context(), f, func(db *sqlx.DB, _ pgsql.Setting) error {
				return forwardEvents(c.Context(), f, db)
			})
			if err != nil && c.Context().Err() != nil {
				return &exit.Error{Code: exit.Stopped, Err: err}
			}
			return err
		},
	})
}

// forwardedView counts the events of a destination, as JSON.
type forwardedView struct {
	Destination string `json:"destination"` // the address, without secrets
	Sent        int64  `json:"sent"`        // events that the destination accepted
	Refused     int64  `json:"refused"`     // refusals; the events are tried again, or are dead letters
	Elsewhere   bool   `json:"elsewhere"`   // another process sends to the destination
	Error       string `json:"error"`       // of the last try, or the last refusal, or why events wait; empty: none
}

func forwardEvents(ctx context.Context, f *factory.Factory, db *sqlx.DB) error {
	cfg, release, err := checks.Forwarding(ctx, f, db, nil)
	if err != nil {
		return err
	}
	if len(cfg.Destinations) == 0 {
		return errors.Join(release(), exit.Usagef("the settings have no destination: "+
			"set events.destination, or name one in events.destinations"))
	}
	cfg.RetryNow = true
	forwarder, err := forward.Start(ctx, cfg)
	if err != nil {
		return errors.Join(err, release())
	}
	views, sent := []forwardedView{}, int64(0)
	var failed, elsewhere, held []string
	for _, did := range forwarder.Finish() {
		v := forwardedView{Destination: did.Name, Sent: did.Sent, Refused: did.Refused, Elsewhere: did.Elsewhere}
		if err := cmp.Or(did.Err, did.Refusal); err != nil {
			v.Error = plain.ErrorText(err)
			failed = append(failed, did.Name)
		}
		if v.Elsewhere {
			elsewhere = append(elsewhere, did.Name)
		}
		if did.Held {
			v.Error = cmp.Or(v.Error, "an open transaction holds back events")
			held = append(held, did.Name)
		}
		sent += did.Sent
		views = append(views, v)
	}
	header := table.Row{"DESTINATION", "SENT", "REFUSED", "ERROR"}
	err = errors.Join(release(), output.List(f.Printer, views, header, func(v forwardedView) table.Row {
		if v.Elsewhere {
			v.Error = "another process sends to it"
		}
		return table.Row{v.Destination, v.Sent, v.Refused, v.Error}
	}))
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = errors.New("stopped by a signal; what was not sent waits in the outbox: repeat the command")
	case len(elsewhere) > 0 && sent == 0 && len(failed) == 0:
		err = exit.Usagef("nothing was sent: another process sends to %s, and goes on. "+
			"If it has died, its lease ends within %s",
			strings.Join(elsewhere, ", "), duration.Format(cfg.Lease))
	case len(failed) > 0:
		err = fmt.Errorf("not all events were taken by %s; they are sent again, or are dead letters. See: %s status",
			strings.Join(failed, ", "), f.Self())
	case len(held) > 0:
		err = fmt.Errorf("events for %s wait behind an open transaction that has written something, anywhere on the server: "+
			"repeat the command when it has ended. See: %s doctor", strings.Join(held, ", "), f.Self())
	}
	return err
}
