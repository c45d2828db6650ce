package txn

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// transaction is that of a check.
type transaction struct {
	*pg.LazyTx

	state  string // the answer of begin_check
	number string // of the transaction
	role   string // of its connection, if the job has a pool of its own

	// resume returns the transaction that the commit of the check before has begun. Nil: it has begun none.
	resume func(ctx context.Context) (*pg.LazyTx, error)
}

// begin returns the transaction of a check: the one that has begun, or another.
func (c *Checker) begin(ctx context.Context, u *unit.Unit, begun *transaction) (tx *transaction, err error) {
	switch tx = cmp.Or(begun, new(transaction)); {
	case begun != nil:
		tx.LazyTx, err = tx.resume(ctx)
	case u.Def.DB != nil:
		tx.LazyTx, err = pg.BeginLazy(ctx, u.Def.DB)
	default:
		tx.LazyTx, err = pg.BeginLazy(ctx, c.DB, record.Forget, record.FreeLocks)
	}
	return tx, err
}

// lock locks the rows, so that their owners wait for the outcome. Rows that another transaction has locked are left for
// later, and rows that are gone are dropped.
func (c *Checker) lock(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain) error {
	switch {
	case u.Def.Grouped():
		return c.lockGroup(ctx, tx, u)
	case u.Def.Batched():
		return c.lockBatch(ctx, tx, u, ch)
	}
	if tx.resume == nil {
		if err := c.lockRow(ctx, tx, u); err != nil {
			return err
		}
	}
	switch tx.state {
	case "gone":
		return ErrRecorded
	case "busy":
		return ErrLocked
	}
	tx.number = strings.TrimPrefix(tx.state, "locked ")
	return nil
}

func (c *Checker) lockRow(ctx context.Context, tx *transaction, u *unit.Unit) error {
	wait, patient := db.LockTimeout, false
	if u.Wait == unit.Locked {
		var release func()
		if release, patient = c.Records.BePatient(); patient {
			defer release()
			wait = record.PatientFor
		}
	}
	return c.beginningRow(tx, u, wait, patient).Send(ctx, tx.LazyTx)
}

// beginning returns the message that begins the transaction of a check of many rows.
func (c *Checker) beginning(tx *transaction, u *unit.Unit) *pg.Message {
	var m pg.Message
	m.Do(c.Settings(u.MayTake(c.Grace), db.LockTimeout))
	m.Do(record.NameSession(c.claim.Token))
	m.Do(record.NameActor(u.Def.Name))
	c.setClock(&m, u)
	c.askRole(&m, tx, u)
	m.Add(pg.CheckNumber.In(c.Schema), nil, func(row *sql.Rows) error { return row.Scan(&tx.number) })
	return &m
}

// beginningRow returns the message that begins the check of one row: it locks the row and reads its state.
func (c *Checker) beginningRow(tx *transaction, u *unit.Unit, wait time.Duration, patient bool) *pg.Message {
	var m pg.Message
	c.Unhurried(&m, wait)
	values := pg.Composite{c.Records.Session.Slot, u.Number, u.Rows[0].ID, patient}
	values = append(values, record.OfRow(c.claim.Token, wait, u.MayTake(c.Grace))...)
	values = append(values, record.Actor(u.Def.Name))
	c.setClock(&m, u)
	c.askRole(&m, tx, u)
	m.Add(pg.CheckBegin.In(c.Schema), []any{values}, func(row *sql.Rows) error { return row.Scan(&tx.state) })
	if patient { // an application may wait for this transaction now
		m.Do(c.WaitForLocks(db.LockTimeout))
	}
	return &m
}

// setClock gives a replayed clock to the SQL of a check. A session that had it has lost it with the Forget of the check
// before it in the chain. The role of a pool of the application may not set it.
func (c *Checker) setClock(m *pg.Message, u *unit.Unit) {
	if now, replayed := c.Records.Session.Clock().(time.Time); replayed && u.Def.DB == nil {
		m.Do(record.SetClock(now))
	}
}

// askRole reads the role of a connection of the job's own pool.
func (c *Checker) askRole(m *pg.Message, tx *transaction, u *unit.Unit) {
	if u.Def.DB != nil {
		m.Add(pg.CheckRole.In(c.Schema), nil, func(row *sql.Rows) error { return row.Scan(&tx.role) })
	}
}

// lockBatch splits off the rows that another transaction has locked.
func (c *Checker) lockBatch(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain) error {
	m := c.beginning(tx, u)
	free, busy := c.Records.Session.AddLock(m, pq.Int64Array{u.Number}, u.IDs())
	if err := m.Send(ctx, tx.Tx); err != nil {
		return err
	}
	if len(busy) > 0 {
		ch.Later(u.Busy(busy))
	}
	if !u.Keep(free) {
		return ErrRecorded
	}
	return nil
}

// lockGroup takes the lock of the group, and makes its due rows the rows of the unit.
func (c *Checker) lockGroup(ctx context.Context, tx *transaction, u *unit.Unit) error {
	group, got := u.GroupName(), false
	lock := pg.Qualify(c.Schema, "prescient.group ") + group // as group_try names it
	m := c.beginning(tx, u)
	m.Add(pg.GroupTry.In(c.Schema), []any{group}, func(row *sql.Rows) error { return row.Scan(&got) })
	if err := m.Send(ctx, tx.Tx); err != nil {
		return err
	}
	if !got {
		c.Groups.Wait(c.Work, lock, slog.String("group", group))
		return ErrLocked
	}
	c.Groups.Got(lock)
	rows, of, more, err := c.readGroup(ctx, tx.Tx, u)
	if err != nil {
		return err
	}
	g := u.Group
	rest := slices.DeleteFunc(slices.Clone(g.Members), func(id int64) bool {
		_, found := slices.BinarySearchFunc(rows, id, func(r jobs.FutureJob, id int64) int { return cmp.Compare(r.ID, id) })
		return found
	})
	switch {
	case more:
		g.Rest = rest
	case len(rest) == len(g.Members):
		return ErrRecorded // with other rows of the group
	}
	u.SetRows(rows, of)
	return nil
}

// readGroup locks and reads the due rows of a group, up to row.AtOnce bytes of them; more reports that rows are left.
func (c *Checker) readGroup(
	ctx context.Context, tx *sqlx.Tx, u *unit.Unit,
) (rows []jobs.FutureJob, of []unit.Job, more bool, err error) {
	args := append(c.findsGroup(u), row.MostAtOnce+1, append(pq.Int64Array{}, u.Group.Unreadable...))
	var m pg.Message
	var bytes int64
	s := c.Records.Session
	m.Add(pg.GroupRead.In(c.Schema), args, row.Scan(s.Slot, s.Jobs.Name, func(number int64, job jobs.FutureJob) error {
		if more = bytes > row.AtOnce || len(rows) == row.MostAtOnce; more {
			return pg.ErrEnough
		}
		rows, of = append(rows, job), append(of, unit.Job{Number: number, Def: s.Jobs.Of(number)})
		bytes += row.SizeOf(&job)
		return nil
	}))
	err = m.Send(ctx, tx)
	return rows, of, more, err
}

// findsGroup returns the parameters by which statements find the due rows of a group.
func (c *Checker) findsGroup(u *unit.Unit) []any {
	var family pq.Int64Array
	for number, d := range c.Records.Session.Jobs.All() {
		if d.Group == u.Def.Group {
			family = append(family, number)
		}
	}
	key := u.Group.Key
	return []any{c.Records.Session.Slot, family, key.Key, key.EntityName, key.EntityKey, key.ID}
}

// leavesUnreadable finds the rows of a group that cannot be read and belong to other claims, so that the next call for
// the group leaves them out. It returns false if there are no more of them.
func (c *Checker) leavesUnreadable(u *unit.Unit) bool {
	g := u.Group
	var ids []int64
	err := c.Ask(c.claim.Ctx, c.Work, pg.GroupUnreadable, c.findsGroup(u), func(row *sql.Rows) error {
		var id int64
		err := row.Scan(&id)
		if !slices.Contains(g.Members, id) && !slices.Contains(g.Unreadable, id) {
			ids = append(ids, id)
		}
		return err
	})
	if err != nil || len(ids) == 0 {
		return false
	}
	g.Unreadable = append(g.Unreadable, ids...)
	return true
}
