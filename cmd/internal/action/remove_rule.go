package action

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
)

// RemoveRule drops the triggers of a rule, cancels its waiting rows, and forgets what has fired. It goes on when Do has
// returned.
type RemoveRule struct {
	Rule string `json:"name"`
}

var removeRuleForm = form(Form{
	Name: "remove rule", Summary: "Drop the triggers of a rule, and cancel its waiting rows",
	Title: "Remove a rule", Verb: "Remove",
	Lead: "Its triggers are dropped, its waiting rows end as cancelled, and what has fired is forgotten. " +
		"The table stays as it is.",
	Fields: []Field{{Name: "rule", Label: "Rule", Required: true, Fixed: true, Names: Rules}},
}, func(in *Input) RemoveRule { return RemoveRule{Rule: in.Text("rule")} })

// Target is the rule.
func (a RemoveRule) Target() string { return a.Rule }

func (a RemoveRule) check(*Store) error { return CheckText("name", a.Rule) }

func (a RemoveRule) final() {}

func (a RemoveRule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	store := tx.Rules.In(tx.Tx)
	status, err := store.Get(ctx, a.Rule)
	if err != nil {
		return plan, err
	}
	sum, err := store.Summary(ctx, a.Rule, tx.now())
	if err != nil {
		return plan, err
	}
	// Rows change between preview and confirmation, so their number is not confirmed.
	about := ""
	if sum.Estimated {
		about = "about "
	}
	plan.Text = fmt.Sprintf("Drops the triggers of %s on table %s, cancels its %s%s, "+
		"and forgets what has fired", a.Rule, status.Relation, about,
		spoken.Count(sum.Waiting, "waiting row", "waiting rows"))
	plan.Warnings = []string{
		"If the rule is applied again, no step counts as fired: its overdue decides about steps that have passed. " +
			"A pause holds a rule back.",
		"It needs the right to drop the triggers.",
	}
	return plan, nil
}

func (a RemoveRule) run(ctx context.Context, s *Store, _ string) (Report, error) {
	removed, err := s.Rules.Remove(ctx, a.Rule, s.Progress)
	return RemovedRule{a.Rule, removed, err == nil}, err
}

// RemovedRule reports on RemoveRule.
type RemovedRule struct {
	Name string `json:"name"` // of the rule
	rulestore.Removed
	whole bool
}

// String says how many rows were cancelled.
func (r RemovedRule) String() string {
	text := spoken.Count(r.Cancelled, "waiting row was", "waiting rows were") + " cancelled"
	if r.whole {
		text = r.Name + " is removed: " + text
	}
	return text
}
