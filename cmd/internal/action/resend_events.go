package action

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Letters selects dead letters. Empty fields do not narrow.
type Letters struct {
	Subject     string `json:"subject"`
	Destination string `json:"destination"`
	ID          string `json:"id"`
}

// lettersOf reads the fields of a form.
func lettersOf(in *Input) Letters {
	return Letters{Subject: in.Text("subject"), Destination: in.Text("destination"), ID: in.Text("id")}
}

// lettersFields are the fields of a form.
var lettersFields = []Field{
	{Name: "subject", Label: "Subject", Hint: "Such as the id of a schedule. Empty: every subject.", Names: Schedules},
	{Name: "destination", Label: "Destination", Hint: "That refused them. Empty: every destination.", Names: Consumers},
	{Name: "id", Label: "Event", Hint: "Its id. Empty: every event."},
}

// Filter returns the filter of the list.
func (l Letters) Filter() deadletter.Filter {
	return deadletter.Filter{Subject: l.Subject, Consumer: l.Destination, ID: l.ID, All: true}
}

// Target names the dead letters.
func (l Letters) Target() string { return "dead letters" + l.narrowed() }

func (l Letters) narrowed() string {
	return narrowed(" of subject ", l.Subject, " of destination ", l.Destination, " with id ", l.ID)
}

func (l Letters) check(*Store) error { return CheckWords(l.Subject, l.Destination, l.ID) }

// count plans for dead letters: the plan is confirmed for these letters, not for as many others. does says
// what happens to them.
func (l Letters) count(ctx context.Context, tx Tx, f deadletter.Filter, does string) (plan Plan, err error) {
	found, err := deadletter.Count(ctx, tx.Tx, tx.Schema, f)
	if err == nil && found.Letters == 0 {
		err = l.none(ctx, tx)
	}
	plan.Events, plan.Nothing, plan.Fingerprint = found.Letters, found.Letters == 0, found.Digest
	plan.Text = fmt.Sprintf(does, spoken.Count(found.Letters, "dead letter", "dead letters")+l.narrowed())
	if plan.Nothing {
		plan.Text = "There is no dead letter" + l.narrowed()
	}
	plan.Until = found.Until
	return plan, err
}

// mostLetters bounds the dead letters that are named beside one that does not exist.
const mostLetters = 100

// none returns the error of an id that no dead letter has, or nil.
func (l Letters) none(ctx context.Context, tx Tx) error {
	if l.ID == "" {
		return nil
	}
	ids, err := deadletter.NewList(tx.DB, tx.Schema).IDs(ctx, mostLetters)
	if err != nil {
		return err
	}
	if len(ids) == mostLetters {
		return refusef("there is no dead letter %s; list them with: %s events dead", l.ID, tx.Self)
	}
	return refusef("there is no dead letter %s%s", l.ID, cli.Known("dead letter", ids))
}

// ResendEvents lets dead letters be sent again, in their order.
type ResendEvents struct{ Letters }

var resendEventsForm = form(Form{
	Name: "resend events", Summary: "Send dead letters again",
	Title: "Send dead letters again", Verb: "Send",
	Lead:   "Events that were given up are sent again, in their order, by a daemon or the next run.",
	Fields: lettersFields,
}, func(in *Input) ResendEvents { return ResendEvents{lettersOf(in)} })

func (a ResendEvents) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	plan, err = a.count(ctx, tx, a.Filter(), "Sends %s again")
	if !plan.Nothing {
		plan.Warnings = []string{
			"An event that is refused again may become a dead letter again, with the later ones of its subject.",
		}
	}
	return plan, err
}

// do acts in the transaction of the plan, so these are the letters of the plan.
func (a ResendEvents) do(ctx context.Context, tx Tx) (Report, error) {
	n, err := deadletter.Retry(ctx, tx.Tx, tx.Schema, a.Filter())
	if err == nil && n == 0 {
		err = a.none(ctx, tx)
	}
	return Resent{n}, err
}

// Resent reports on ResendEvents.
type Resent struct {
	Again int64 `json:"again"` // dead letters that are sent again
}

// String says how many are sent.
func (r Resent) String() string {
	return spoken.Count(r.Again, "event is", "events are") + " sent again"
}
