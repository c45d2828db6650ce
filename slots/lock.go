package slots

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

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/statement"
	pgsql "github.com/prescient-go/prescient/sql"
)

// lock begins the transaction and locks the rows, so that their owners wait for the outcome. Rows that another
// transaction has locked are left for later, and rows that are gone are dropped.
func (rd *round) lock(ctx context.Context, tx *pgsql.LazyTx, u *unit) error {
	if u.def.Batched() {
		if u.def.Grouped() {
			return rd.lockGroup(ctx, tx.Tx, u)
		}
		return rd.lockBatch(ctx, tx.Tx, u)
	}
	if u.begun == nil {
		if err := rd.lockRow(ctx, tx, u); err != nil {
			return err
		}
	}
	switch u.state {
	case "gone":
		return errRecorded
	case "busy":
		return errAgain
	}
	u.transaction = strings.TrimPrefix(u.state, "locked ")
	return nil
}

func (rd *round) lockRow(ctx context.Context, tx *pgsql.LazyTx, u *unit) error {
	wait, patient := server.LockTimeout, false
	if u.waited {
		var leave func()
		if leave, patient = rd.run.records.BePatient(); patient {
			defer leave()
			wait = record.PatientFor
		}
	}
	return rd.beginningRow(u, wait, patient).Send(ctx, tx)
}

// beginning returns the message that begins the transaction of a check of many rows.
func (rd *round) beginning(u *unit) *pgsql.Message {
	r := rd.run
	var m pgsql.Message
	m.Do(r.server.Settings(r.mostOf(u.def), server.LockTimeout))
	m.Do(statement.NameSession(rd.claim.Token))
	rd.askRole(&m, u)
	m.Add(pgsql.CheckNumber.In(r.schema), nil, func(row *sql.Rows) error { return row.Scan(&u.transaction) })
	return &m
}

// beginningRow returns the message that begins the check of one row: it locks the row and reads its state.
func (rd *round) beginningRow(u *unit, wait time.Duration, patient bool) *pgsql.Message {
	r := rd.run
	var m pgsql.Message
	r.server.Unhurried(&m, wait)
	row := append(pgsql.Composite{r.slot, u.number, u.rows[0].ID, patient}, statement.OfRow(rd.claim.Token, wait, r.mostOf(u.def))...)
	rd.askRole(&m, u)
	m.Add(pgsql.CheckBegin.In(r.schema), []any{row}, func(row *sql.Rows) error { return row.Scan(&u.state) })
	return &m
}

// askRole reads the role of a connection of the job's own pool.
func (rd *round) askRole(m *pgsql.Message, u *unit) {
	if u.def.DB != nil {
		m.Add(pgsql.CheckRole.In(rd.run.schema), nil, func(row *sql.Rows) error { return row.Scan(&u.role) })
	}
}

// lockBatch splits off the rows that another transaction has locked.
func (rd *round) lockBatch(ctx context.Context, tx *sqlx.Tx, u *unit) error {
	m := rd.beginning(u)
	free, busy := rd.run.records.AddLock(m, pq.Int64Array{u.number}, u.ids())
	if err := m.Send(ctx, tx); err != nil {
		return err
	}
	if len(busy) > 0 {
		later := &unit{def: u.def, number: u.number, attempt: attempt{lost: u.lost}}
		u.lost = nil
		for i := range u.rows {
			if busy[u.rows[i].ID] {
				later.rows = append(later.rows, u.rows[i])
			}
		}
		rd.later(later)
	}
	if !rd.keepRows(u, free) {
		return errRecorded
	}
	return nil
}

// lockGroup takes the lock of the group, and makes its due rows the rows of the unit.
func (rd *round) lockGroup(ctx context.Context, tx *sqlx.Tx, u *unit) error {
	group, got := groupOf(&u.one[0]), false
	lock := "prescient.group " + group
	m := rd.beginning(u)
	m.Add(pgsql.GroupTry.In(rd.run.schema), []any{group}, func(row *sql.Rows) error { return row.Scan(&got) })
	if err := m.Send(ctx, tx); err != nil {
		return err
	}
	if !got {
		rd.run.report.groups.wait(rd.run, lock, slog.String("group", group))
		return errAgain
	}
	rd.run.report.groups.got(lock)
	rows, numbers, more, err := rd.readGroup(ctx, tx, u)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(u.members), func(id int64) bool {
		_, found := slices.BinarySearchFunc(rows, id, func(row jobs.FutureJob, id int64) int { return cmp.Compare(row.ID, id) })
		return found
	})
	switch {
	case more:
		u.rest = rest
	case len(rest) == len(u.members):
		return errRecorded // with other rows of the group
	}
	rd.setRows(u, rows, numbers)
	return nil
}

// readGroup locks and reads the due rows of a group, up to readAtOnce bytes of them; more reports that rows are left.
func (rd *round) readGroup(ctx context.Context, tx *sqlx.Tx, u *unit) (rows []jobs.FutureJob, numbers []int64, more bool, err error) {
	r := rd.run
	const most = readAtOnce / rowSize
	args := append(rd.findsGroup(u), most+1, append(pq.Int64Array{}, u.unreadable...))
	var m pgsql.Message
	var bytes int64
	m.Add(pgsql.GroupRead.In(r.schema), args, r.scanRow(func(number int64, job jobs.FutureJob) error {
		if more = bytes > readAtOnce || len(rows) == most; more {
			return pgsql.ErrEnough
		}
		rows, numbers = append(rows, job), append(numbers, number)
		bytes += sizeOf(&job)
		return nil
	}))
	err = m.Send(ctx, tx)
	return rows, numbers, more, err
}

// findsGroup returns the parameters by which statements find the due rows of a group.
func (rd *round) findsGroup(u *unit) []any {
	var family pq.Int64Array
	for number, job := range rd.run.known {
		if job.def.Group == u.def.Group {
			family = append(family, number)
		}
	}
	return []any{rd.run.slot, family, u.group.key, u.group.entityName, u.group.entityKey, u.group.id}
}

// leavesUnreadable finds the rows of a group that cannot be read and belong to other claims, so that the next call for
// the group leaves them out. It returns false if there are no more of them.
func (rd *round) leavesUnreadable(u *unit) bool {
	var ids []int64
	err := rd.run.server.Ask(rd.claim.ctx, rd.run.work, pgsql.GroupUnreadable, rd.findsGroup(u), func(row *sql.Rows) error {
		var id int64
		err := row.Scan(&id)
		if !slices.Contains(u.members, id) && !slices.Contains(u.unreadable, id) {
			ids = append(ids, id)
		}
		return err
	})
	if err != nil || len(ids) == 0 {
		return false
	}
	u.unreadable = append(u.unreadable, ids...)
	return true
}

// groupKey identifies a group by what group_read needs to find its rows.
type groupKey struct {
	family, key, entityName, entityKey string
	id                                 int64 // of a row that is a group of its own
}

func groupKeyOf(d *engine.Definition, row *jobs.FutureJob) groupKey {
	switch {
	case row.GroupKey != "":
		name, key, _ := strings.Cut(row.GroupKey, "\x1f") // the form of an entity's group
		return groupKey{d.Group, row.GroupKey, name, key, 0}
	case row.Anonymous:
		return groupKey{family: d.Group, id: row.ID}
	}
	return groupKey{d.Group, groupOf(row), row.EntityName, row.EntityKey, 0}
}

// restOf returns the unit of the claim's rows that are not in the call of a group.
func restOf(u *unit) *unit {
	rest := &unit{def: u.def, number: u.number, one: u.one, group: u.group, members: u.rest, waited: true}
	rest.rows = rest.one[:]
	return rest
}

// setRows sets the rows of a unit.
func (rd *round) setRows(u *unit, rows []jobs.FutureJob, numbers []int64) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	u.rows, u.numbers = rows, numbers
}

// groupOf returns what the rows of one group have in common: the group_key, or the entity if there is none.
func groupOf(row *jobs.FutureJob) string {
	if row.GroupKey != "" {
		return row.GroupKey
	}
	return row.EntityName + "\x1f" + row.EntityKey
}
