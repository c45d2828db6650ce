package board

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
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
		v.Rules = []view.Rule{}
		for _, s := range list {
			v.Rules = append(v.Rules, view.NewRule(s))
		}
		return v, err
	})
}

// Rule returns one rule, or ErrNotFound.
func (b *Board) Rule(ctx context.Context, name string, acted int64) (Rule, error) {
	if err := checkText("name", name); err != nil {
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

// RemoveRule drops the triggers of a rule, cancels its waiting rows, and forgets what has fired.
type RemoveRule struct {
	Name string `json:"name"`
}

// removeRuleForm is the form of RemoveRule.
var removeRuleForm = form(Form{
	Path: "remove-rule", Summary: "Drop the triggers of a rule, and cancel its waiting rows",
	Title: "Remove a rule", Verb: "Remove",
	Lead: "Its triggers are dropped, its waiting rows end as cancelled, and what has fired is forgotten. " +
		"The table stays as it is.",
	Fields: []Field{{Name: "rule", Label: "Rule", Required: true, Fixed: true}},
}, func(in *Input) RemoveRule { return RemoveRule{Name: in.Text("rule")} })

func (a RemoveRule) name() string   { return "remove rule" }
func (a RemoveRule) target() string { return a.Name }

func (a RemoveRule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if err := checkText("name", a.Name); err != nil {
		return plan, err
	}
	store := p.rules.In(p)
	status, err := store.Get(ctx, a.Name)
	if errors.Is(err, rulestore.ErrNotFound) {
		return plan, notFound("rule " + a.Name)
	}
	if err != nil {
		return plan, err
	}
	sum, err := store.Summary(ctx, a.Name, p.now())
	if err != nil {
		return plan, err
	}
	// Rows change between preview and confirmation, so their number is not confirmed.
	about := ""
	if sum.Estimated {
		about = "about "
	}
	plan.Text = fmt.Sprintf("It drops the triggers of %s on table %s, cancels its waiting rows, %s%d now, "+
		"and forgets what has fired", a.Name, status.Relation, about, sum.Waiting)
	plan.Warnings = []string{
		"If the rule is applied again, steps fire again for rows for which they have fired. A pause holds a rule back.",
		"It needs the right to drop the triggers.",
	}
	return plan, nil
}

func (a RemoveRule) run(ctx context.Context, _ *source, t *tools, _ web.Who) (string, error) {
	removed, err := t.rules.Remove(ctx, a.Name, nil)
	text := spoken.Count(removed.Cancelled, "waiting row was", "waiting rows were") + " cancelled"
	if err != nil {
		return text + ": " + err.Error(), err
	}
	return a.Name + " is removed; " + text, nil
}
