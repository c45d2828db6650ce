package board

import (
	"context"
	"errors"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
)

// ruleDays is how many days back the rows of a rule that ended are counted.
const ruleDays = 7

// Rules is every rule that was applied.
type Rules struct {
	Seen
	Rules []view.Rule `json:"rules"` // by name
}

// Rule is one rule. Its summary counts the rows that ended in the last 7 days.
type Rule struct {
	Seen
	view.RuleDetail
	// Ahead counts its rows in each of the next 96 slots. Slots without rows are left out.
	Ahead []Ahead `json:"ahead"`
	// Due counts its overdue rows. The field overdue has the policy of the rule for steps that have passed.
	Due view.OverdueRows `json:"due"`
}

// Rules returns every rule that was applied.
func (b *Board) Rules(ctx context.Context, acted int64) (Rules, error) {
	return read(ctx, b.source, "rules", acted, overviewAge, func(ctx context.Context, r *reader) (v Rules, err error) {
		list, err := r.rules.In(r).List(ctx)
		return Rules{Rules: seq.Map(list, view.NewRule)}, err
	})
}

// Rule returns one rule, or ErrNotFound.
func (b *Board) Rule(ctx context.Context, name string, acted int64) (Rule, error) {
	if err := action.CheckText("name", name); err != nil {
		return Rule{}, err
	}
	v, err := read(ctx, b.source, "rule "+name, acted, pageAge, func(ctx context.Context, r *reader) (v Rule, err error) {
		store := r.rules.In(r)
		status, err := store.Get(ctx, name)
		if errors.Is(err, rulestore.ErrNotFound) {
			return v, notFound("rule " + name)
		}
		if err != nil {
			return v, err
		}
		sum, err := store.Summary(ctx, name, r.now().Add(-ruleDays*24*time.Hour))
		if err != nil {
			return v, err
		}
		fired, err := store.Fired(ctx, name)
		if err != nil {
			return v, err
		}
		v.RuleDetail = view.NewRuleDetail(status, fired, sum)
		v.Ahead, err = readAhead(ctx, r, name, r.grid().Floor(r.now()))
		return v, err
	})
	if err != nil {
		return v, err
	}
	o, err := b.Overview(ctx, acted)
	v.Due = view.NewOverdueRows(o.Due[name])
	return v, err
}
