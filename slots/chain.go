package slots

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// stint is how long a place for checks is held for one after another: others wait for it, too.
const stint = 200 * time.Millisecond

// commitTx commits the transaction of a check, and in the same message begins that of the next row, if there is one to be checked in
// its place.
func (rd *round) commitTx(ctx context.Context, tx *pgsql.LazyTx, u *unit, m *pgsql.Message) error {
	ctx = context.WithoutCancel(ctx) // whether the lease is lost the fence knows
	if tx.Chains() && !u.queue.door.IsLimited() && !u.def.Batched() && time.Since(u.since) < stint {
		u.next = rd.begin(u.queue, time.Time{}, u)
	}
	if u.next == nil {
		return m.CommitTx(ctx, tx)
	}
	var err error
	u.next.begun, err = m.CommitAndBegin(ctx, tx, rd.beginningRow(u.next, server.LockTimeout, false))
	return err
}

// restart lets the time of a check begin that has waited: for another to be recorded, for a connection, or for a lock.
func (rd *round) restart(u *unit) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	u.began, u.safe = elapsed.Now(), false
	rd.run.brief(u)
}

// follows tells whether a check may begin with the commit of another: both of one row, and in the same database.
func (u *unit) follows(before *unit) bool {
	return u.verdict == nil && !u.waited && u.def.InTx() && !u.def.Batched() && u.def.DB == before.def.DB
}

// beginTx returns the transaction of a check, which may have begun with the commit of another.
func (rd *round) beginTx(ctx context.Context, u *unit) (*pgsql.LazyTx, error) {
	if u.begun != nil {
		return u.begun(ctx)
	}
	if u.def.DB != nil {
		return pgsql.BeginLazy(ctx, u.def.DB)
	}
	return pgsql.BeginLazy(ctx, rd.run.server.DB, forget, unlock)
}
