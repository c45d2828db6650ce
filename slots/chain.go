package slots

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/statement"
	pgsql "github.com/prescient-go/prescient/sql"
)

// stint bounds how long one chain of checks may hold a place, because other checks wait for it.
const stint = 200 * time.Millisecond

// commitTx commits the transaction of a check. If another row follows in its place, the same message begins the
// transaction of that row.
func (rd *round) commitTx(ctx context.Context, tx *pgsql.LazyTx, u *unit, m *pgsql.Message) error {
	ctx = context.WithoutCancel(ctx) // the fence finds out whether the lease is lost
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

// restart begins the time of a check anew after a wait: for the record of another check, a connection, or a lock.
func (rd *round) restart(u *unit) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	u.began, u.safe = elapsed.Now(), false
	rd.run.brief(u)
}

// follows reports whether a check may begin with the commit of another: both have one row, in the same database.
func (u *unit) follows(before *unit) bool {
	return u.verdict == nil && !u.waited && u.def.InTx() && !u.def.Batched() && u.def.DB == before.def.DB
}

// beginTx returns the transaction of a check. The commit of another check may have begun it.
func (rd *round) beginTx(ctx context.Context, u *unit) (*pgsql.LazyTx, error) {
	if u.begun != nil {
		return u.begun(ctx)
	}
	if u.def.DB != nil {
		return pgsql.BeginLazy(ctx, u.def.DB)
	}
	return pgsql.BeginLazy(ctx, rd.run.server.DB, statement.Forget, statement.FreeLocks)
}
