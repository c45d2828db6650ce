package database

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	lockLook     = 5 * time.Second // between two checks who holds what this process waits for
	lockPatience = 3 * time.Second // a shorter wait is not logged
)

// holder is a session that holds a lock which this process waits for.
type holder struct {
	What, Holder, Mends string
	Since               *time.Time // null: this role may not know
}

// watchLocks logs which sessions block the sessions of db, so that no command hangs silently: a
// forgotten ALTER TABLE in a terminal even blocks status and doctor. It asks only while a session is in
// use, and ends with ctx.
func watchLocks(ctx context.Context, f *factory.Factory, db *sqlx.DB) {
	told := map[holder]bool{} // without Since, which is a pointer
	for tick := time.NewTicker(lockLook); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if db.Stats().InUse == 0 { // nothing waits
			continue
		}
		var holders []holder
		err := pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
			return tx.SelectContext(ctx, &holders, pg.LockHolders.In(f.Schema()), lockPatience.Microseconds())
		})
		if err != nil && !pg.IsTransient(err) {
			tick.Stop()
			return
		}
		for _, h := range holders {
			attrs := []any{"lock", h.What, "holder", h.Holder, "to_end_it", h.Mends}
			if h.Since != nil {
				attrs = append(attrs, "since", h.Since.UTC())
			}
			if h.Since = nil; !told[h] {
				told[h] = true
				f.Pools().Log.WarnContext(ctx, "waiting for a lock", attrs...)
			}
		}
	}
}
