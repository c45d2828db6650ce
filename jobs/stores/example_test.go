package stores_test

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/stores"
)

func ExampleSet_Route() {
	enqueue := func(ctx context.Context, set *stores.Set, customer string) error {
		store, err := set.Route(customer)
		if err != nil {
			return err
		}
		tx, err := store.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		// ... what the check is about
		check := jobs.Request{JobExec: "invoice.overdue", EntityName: "customer", EntityKey: customer, CheckAt: store.Client.FromNow(72 * time.Hour)}
		if _, err := store.Client.Enqueue(ctx, tx, check); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = enqueue
}

func ExampleSet_Candidates() {
	// A cancel that finds the row whether it is being moved or not.
	cancel := func(ctx context.Context, set *stores.Set, customer string) error {
		key := jobs.Key{JobExec: "invoice.overdue", EntityName: "customer", EntityKey: customer}
		for _, store := range set.Candidates(customer) {
			if store.Client == nil {
				return store.Err // it has not answered yet
			}
			if _, err := store.Client.Cancel(ctx, jobs.OwnTx(store.DB), key); err != nil {
				return err
			}
		}
		return nil
	}
	_ = cancel
}

func ExampleNew() {
	open := func(ctx context.Context, north, south *sqlx.DB) (*stores.Set, error) {
		set, err := stores.New(ctx, []stores.Store{{Name: "north", DB: north}, {Name: "south", DB: south}}, jobs.Config{})
		if err != nil {
			return nil, err
		}
		go func() {
			every := time.NewTicker(time.Minute)
			defer every.Stop()
			for {
				select {
				case <-every.C:
					_ = set.Refresh(ctx) // what does not answer is asked again
				case <-ctx.Done():
					return
				}
			}
		}()
		return set, nil
	}
	_ = open
}
