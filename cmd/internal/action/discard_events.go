package action

import (
	"cmp"
	"context"
	"time"

	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/spoken"
)

// DiscardEvents deletes dead letters.
type DiscardEvents struct {
	Letters
	Until time.Time `json:"until,omitzero"` // only those that were given up before
}

var discardEventsForm = form(Form{
	Name: "discard events", Summary: "Delete dead letters",
	Title: "Delete dead letters", Verb: "Delete",
	Lead:   "Events that were given up are deleted. This cannot be undone.",
	Fields: lettersFields,
}, func(in *Input) DiscardEvents { return DiscardEvents{Letters: lettersOf(in)} })

func (a DiscardEvents) final() {}

func (a DiscardEvents) filter() deadletter.Filter {
	f := a.Filter()
	f.Until = a.Until
	return f
}

func (a DiscardEvents) check(s *Store) error {
	return cmp.Or(a.Letters.check(s), CheckInstant("until", a.Until))
}

func (a DiscardEvents) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	plan, err = a.count(ctx, tx, a.filter(), "Deletes %s")
	if !plan.Nothing {
		plan.Until = bound(a.Until, plan.Until, tx.now())
		plan.Warnings = []string{"Events that are held back behind a deleted one stay in the list until they are sent."}
	}
	return plan, err
}

// do deletes the letters of the plan in its transaction, because letters cannot be restored.
func (a DiscardEvents) do(ctx context.Context, tx Tx) (Report, error) {
	n, err := deadletter.Discard(ctx, tx.Tx, tx.Schema, a.filter())
	if err == nil && n == 0 && a.Until.IsZero() {
		err = a.none(ctx, tx)
	}
	return Discarded{n}, err
}

// Discarded reports on DiscardEvents.
type Discarded struct {
	Discarded int64 `json:"discarded"` // dead letters that were deleted
}

// String says how many were deleted.
func (d Discarded) String() string {
	return spoken.Count(d.Discarded, "dead letter was", "dead letters were") + " deleted"
}
