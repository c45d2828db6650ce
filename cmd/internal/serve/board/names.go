package board

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
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

func (r *reader) names(ctx context.Context, of action.Named) (names []string, err error) {
	switch of {
	case action.Jobs:
		return admin.New(r.client).JobNames(ctx, r, mostNames)
	case action.Entities:
		return admin.New(r.client).EntityNames(ctx, r, "", mostNames)
	case action.Schedules:
		list, _, err := r.store.Page(ctx, r, schedule.Filter{Limit: mostNames})
		for _, s := range list {
			names = append(names, s.ID)
		}
		return names, err
	case action.Rules:
		list, err := r.rules.In(r).List(ctx)
		for _, s := range list[:min(mostNames, len(list))] {
			names = append(names, s.Rule.Name)
		}
		return names, err
	case action.Consumers:
		list, err := readConsumers(ctx, r)
		for _, c := range list[:min(mostNames, len(list))] {
			names = append(names, c.Name)
		}
		return names, err
	}
	return nil, fmt.Errorf("nothing is known of the names of %s", of)
}
