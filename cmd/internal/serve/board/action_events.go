package board

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/spoken"
)

// letters names the dead letters that a filter selects.
func letters(f deadletter.Filter) string {
	text := "dead letters"
	if f.Subject != "" {
		text += " of subject " + f.Subject
	}
	if f.ID != "" {
		text += " with id " + f.ID
	}
	return text
}

// dead plans for dead letters: the plan is confirmed for these letters, not for as many others.
func (p *planner) dead(ctx context.Context, f deadletter.Filter) (plan Plan, err error) {
	if err := checkWords(f.Subject, f.ID); err != nil {
		return plan, err
	}
	found, err := deadletter.Count(ctx, p, p.schema, f)
	plan.Events, plan.Nothing, plan.fingerprint = found.Letters, found.Letters == 0, found.Digest
	return plan, err
}

// ResendEvents lets dead letters be sent again, in their order. Empty fields do not narrow.
type ResendEvents struct {
	Subject string `json:"subject"`
	ID      string `json:"id"`
}

// resendEventsForm is the form of ResendEvents.
var resendEventsForm = form(Form{
	Path: "resend-events", Summary: "Send dead letters again",
	Title: "Send dead letters again", Verb: "Send",
	Lead:   "Events that were given up are sent again, in their order, by a daemon or the next run.",
	Fields: []Field{subjectField, eventField},
}, func(in *Input) ResendEvents {
	return ResendEvents{Subject: in.Text("subject"), ID: in.Text("id")}
})

func (a ResendEvents) name() string { return "resend events" }
func (a ResendEvents) filter() deadletter.Filter {
	return deadletter.Filter{Subject: a.Subject, ID: a.ID, All: true}
}
func (a ResendEvents) target() string { return letters(a.filter()) }

func (a ResendEvents) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	plan, err = p.dead(ctx, a.filter())
	plan.Text = fmt.Sprintf("It sends %s again: %s", spoken.Count(plan.Events, "event", "events"), a.target())
	plan.Warnings = []string{
		"An event that is refused again may become a dead letter again, with the later ones of its subject.",
	}
	return plan, err
}

// do acts in the transaction of the plan, so these are the letters of the plan.
func (a ResendEvents) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	n, err := deadletter.Retry(ctx, tx, t.schema, a.filter())
	return spoken.Count(n, "event is", "events are") + " sent again", err
}

// DiscardEvents deletes dead letters. Empty fields do not narrow.
type DiscardEvents struct {
	Subject string `json:"subject"`
	ID      string `json:"id"`
}

// discardEventsForm is the form of DiscardEvents.
var discardEventsForm = form(Form{
	Path: "discard-events", Summary: "Delete dead letters",
	Title: "Delete dead letters", Verb: "Delete",
	Lead:   "Events that were given up are deleted. This cannot be undone.",
	Fields: []Field{subjectField, eventField},
}, func(in *Input) DiscardEvents {
	return DiscardEvents{Subject: in.Text("subject"), ID: in.Text("id")}
})

func (a DiscardEvents) name() string { return "discard events" }
func (a DiscardEvents) filter() deadletter.Filter {
	return deadletter.Filter{Subject: a.Subject, ID: a.ID, All: true}
}
func (a DiscardEvents) target() string { return letters(a.filter()) }

func (a DiscardEvents) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	plan, err = p.dead(ctx, a.filter())
	plan.Text = fmt.Sprintf("It deletes %s: %s", spoken.Count(plan.Events, "event", "events"), a.target())
	plan.Warnings = []string{"Events that are held back behind a deleted one stay in the list until they are sent."}
	return plan, err
}

// do deletes the letters of the plan in its transaction, because letters cannot be restored.
func (a DiscardEvents) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	n, err := deadletter.Discard(ctx, tx, t.schema, a.filter())
	return spoken.Count(n, "event was", "events were") + " deleted", err
}
