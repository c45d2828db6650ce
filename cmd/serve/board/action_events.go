package board

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/deadletter"
	pgsql "github.com/prescient-go/prescient/sql"
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

// dead counts dead letters.
func (p *planner) dead(ctx context.Context, f deadletter.Filter) (plan Plan, err error) {
	if err := checkWords(f.Subject, f.ID); err != nil {
		return plan, err
	}
	if err := pgsql.One(ctx, p.reader, pgsql.EventDeadCount.In(p.schema), f.Args(), &plan.Events,
		new(sql.NullTime)); err != nil {
		return plan, fmt.Errorf("count dead letters: %w", err)
	}
	plan.Nothing = plan.Events == 0
	return plan, nil
}

// ResendEvents sends dead letters again, in their order. Empty fields do not narrow. It goes on when
// Do has returned.
type ResendEvents struct {
	Subject string `json:"subject"`
	ID      string `json:"id"`
}

func (a ResendEvents) name() string              { return "resend events" }
func (a ResendEvents) filter() deadletter.Filter { return deadletter.Filter(a) }
func (a ResendEvents) target() string            { return letters(a.filter()) }

func (a ResendEvents) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	plan, err = p.dead(ctx, a.filter())
	plan.Text = fmt.Sprintf("It sends %s again: %s", spoken.Count(plan.Events, "event", "events"), a.target())
	plan.Warnings = []string{"After a refusal, the later events of the subject stay in the list."}
	return plan, err
}

func (a ResendEvents) run(ctx context.Context, b *Board, _ *tools, _ Who) (string, error) {
	sent, err := deadletter.NewList(b.cfg.DB, b.schema).Send(ctx, b.cfg.Publishing.Publisher, a.filter())
	text := fmt.Sprintf("%s sent, %d refused again, and %d held back",
		spoken.Count(sent.Sent, "event was", "events were"), sent.Refused, sent.Held)
	if err != nil {
		text += ": " + err.Error()
	}
	return text, err
}

// DiscardEvents deletes dead letters. Empty fields do not narrow. It goes on when Do has returned.
type DiscardEvents struct {
	Subject string `json:"subject"`
	ID      string `json:"id"`
}

func (a DiscardEvents) name() string              { return "discard events" }
func (a DiscardEvents) filter() deadletter.Filter { return deadletter.Filter(a) }
func (a DiscardEvents) target() string            { return letters(a.filter()) }

func (a DiscardEvents) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	plan, err = p.dead(ctx, a.filter())
	plan.Text = fmt.Sprintf("It deletes %s: %s", spoken.Count(plan.Events, "event", "events"), a.target())
	plan.Warnings = []string{"Events that are held back behind a deleted one stay in the list until they are sent."}
	return plan, err
}

func (a DiscardEvents) run(ctx context.Context, b *Board, _ *tools, _ Who) (string, error) {
	n, err := deadletter.NewList(b.cfg.DB, b.schema).Discard(ctx, a.filter())
	return spoken.Count(n, "event was", "events were") + " deleted", err
}
