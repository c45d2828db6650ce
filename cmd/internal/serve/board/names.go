package board

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

const (
	// namesAge is the maximum age of the names that forms offer, and mostNames how many they are.
	namesAge  = time.Minute
	mostNames = 200
)

// offered are names in the cache.
type offered struct {
	Seen
	names []string
}

// Names returns up to 200 names that a field of a form can have.
func (b *Board) Names(ctx context.Context, of action.Named) ([]string, error) {
	v, err := read(ctx, b.source, keyOf("names", string(of)), 0, namesAge,
		func(ctx context.Context, r *reader) (v offered, err error) {
			v.names, err = r.names(ctx, of)
			return v, err
		})
	return v.names, err
}

func (r *reader) names(ctx context.Context, of action.Named) ([]string, error) {
	switch of {
	case action.Jobs:
		return admin.New(r.client).JobNames(ctx, r, mostNames)
	case action.Entities:
		return admin.New(r.client).EntityNames(ctx, r, "", mostNames)
	case action.Schedules:
		list, _, err := r.store.Page(ctx, r, schedule.Filter{Limit: mostNames})
		return seq.Map(list, func(s schedule.Schedule) string { return s.ID }), err
	case action.Rules:
		list, err := r.rules.In(r).List(ctx)
		list = list[:min(mostNames, len(list))]
		return seq.Map(list, func(s rulestore.Status) string { return s.Rule.Name }), err
	case action.Consumers:
		list, err := readConsumers(ctx, r)
		list = list[:min(mostNames, len(list))]
		return seq.Map(list, func(c Consumer) string { return c.Name }), err
	}
	return nil, fmt.Errorf("nothing is known of the names of %s", of)
}
