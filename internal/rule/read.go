package rule

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulesession"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// mostAnswers bounds the bytes of the payload of a row. mostTogether bounds the keys and payloads that are
// read for a page of several rows. Publishing them takes some ten times as much memory, in each of the
// calls at work. 400 payloads of 320 kB took 983 MB with 16 MiB a page, and 282 MB with 4.
const (
	mostAnswers  = 16 << 20
	mostTogether = 4 << 20
)

// seen is a row of the table, as the query for its key found it. The zero value is a row that is gone.
type seen struct {
	Row
	start   string // the value behind Since, if it has no time zone
	payload json.RawMessage
	large   bool // the payload exceeds mostAnswers, and was not read
	moving  bool // what triggers have noted of it changed while it was read
}

const (
	// lockTime is how long a query waits for a lock of the table. Meanwhile it has one of the few
	// connections that all rules share.
	lockTime = time.Second
	// lockPause is how long after that the other pages of the rule do not try.
	lockPause = 5 * time.Second
)

// errLocked is the error of the rows of a table that another session has locked, such as with vacuum
// full or alter table.
var errLocked = fmt.Errorf("the table is locked: %w", leave.ErrToSlot)

// read reads the rows of the table for the keys of rows of the page. It returns errLocked if the table is
// locked.
func (p *page) read(ctx context.Context, of []int) error {
	if at := p.rule.locked.Load(); at != nil && time.Since(*at) < lockPause {
		return errLocked
	}
	keys := make([]string, len(of))
	var now time.Time // of the latest row: never before its slot
	for n, i := range of {
		row := p.rows[i]
		keys[n], now = row.EntityKey, grid.Later(now, row.Slot.Add(row.Lateness))
	}
	args := p.rule.Parameters(keys)
	now = now.Add(time.Since(p.began)) // what the application has written during the call counts
	if p.rule.asks {
		args = append(args, now)
	}
	found := make(map[string]seen, len(keys))
	size := 0
	if p.horizon.Valid {
		// Before the query, which then sees what the transactions have written that are not open any more.
		args := []any{pq.Array(p.rule.written()), p.horizon.String}
		if err := pg.One(ctx, p.tx, pg.RuleWriters.In(p.Schema), args, &p.unsettled); err != nil {
			return fmt.Errorf("find transactions that write to %s: %w", p.rule.Relation, err)
		}
	}
	var before, after map[string]noted
	err := p.readOnly(ctx, func(tx *sqlx.Tx) (err error) {
		if before, err = p.readNoted(ctx, tx, keys); err != nil {
			return err
		}
		if err := p.asReader(ctx, tx); err != nil {
			return err
		}
		clear(found)
		size = 0
		_, err = pg.Collect(ctx, tx, p.rule.query, args, func(row *sql.Rows, key *string) error {
			var s seen
			var since, doneAt sql.NullTime
			var payload sql.NullString
			var held []sql.NullString
			err := row.Scan(key, &since, &s.About, &s.Done, &doneAt, pq.Array(&held), &payload, &s.large, &s.start, &s.Paused)
			s.Key, s.There, s.Held, s.DoneAt = *key, true, expr.ReadHeld(held), doneAt.Time
			s.Counts, s.Since = since.Valid, since.Time.UTC()
			if s.Done && s.DoneAt.After(now) {
				s.DoneAt = time.Time{} // a condition has ended the row before this instant
			}
			if payload.Valid {
				s.payload = json.RawMessage(payload.String)
			}
			if size += len(*key) + len(s.payload); size > mostTogether && len(p.rows) > 1 {
				return fmt.Errorf("%w: the payloads exceed %d MiB", jobs.ErrDivide, mostTogether>>20)
			}
			found[*key] = s
			return err
		})
		if err != nil || before == nil {
			return err
		}
		if err := p.asLogin(ctx, tx); err != nil {
			return err
		}
		after, err = p.readNoted(ctx, tx, keys)
		return err
	})
	if pg.IsLockTimeout(err) {
		p.rule.locked.Store(new(time.Now())) //nolint:forbidigo // measures how long ago
		p.Logger.WarnContext(ctx, "the table of a rule is locked by another session: its checks wait for the next slot",
			"rule", p.rule.Rule.Name, "table", p.rule.Relation)
		return errLocked
	}
	if refused, ok := errors.AsType[*pq.Error](err); ok && refused.Code.Class() == "22" && refused.Position != "" {
		// The query itself is at fault: it names a value of a type that was renamed since.
		err = fmt.Errorf("%w. If the value has another name now, apply the file of the rule with that name", err)
	}
	if err != nil {
		return fmt.Errorf("read %s for rule %s: %w", p.rule.Relation, p.rule.Rule.Name, p.denied(ctx, err))
	}
	readAt := time.Now() //nolint:forbidigo // measures how old what was read is
	for _, i := range of {
		key := p.rows[i].EntityKey
		s := found[key].after(before[key], p.rule.Facts)
		s.moving = !reflect.DeepEqual(before[key], after[key])
		p.turns[i].seen, p.turns[i].readAt = s, readAt
	}
	return nil
}

// noted is what triggers have noted of a row.
type noted struct {
	changed time.Time     // columns that since names; zero: never
	pauses  pq.Int64Array // see Pauses
}

// after returns the row with its pauses, and with the start of its clock, if columns of it have changed at an instant
// that since names.
func (s seen) after(n noted, f expr.Facts) seen {
	if !s.There {
		return s
	}
	s.Pauses = Pauses(f, n.pauses, s.Paused)
	if len(f.Changed) == 0 {
		return s
	}
	if at := grid.Later(n.changed, f.ChangedFrom); !s.Counts || at.After(s.Since) {
		s.Counts, s.Since, s.start = true, at, ""
	}
	return s
}

// readNoted reads when columns of rows have changed that since names, and when rows were paused. A check calls it
// before and after it reads the rows, because a pause that begins or ends in between would give a row a clock that it
// has never had. One snapshot would prevent that, too, but after an alter table that rewrites the table, older
// snapshots find no rows in it.
func (p *page) readNoted(ctx context.Context, tx *sqlx.Tx, keys []string) (map[string]noted, error) {
	if !p.rule.Facts.Noted() {
		return nil, nil
	}
	notes := make(map[string]noted, len(keys))
	_, err := pg.Collect(ctx, tx, pg.RuleChangedRead.In(p.Schema), []any{p.rule.Rule.Name, pq.StringArray(keys)},
		func(row *sql.Rows, _ *struct{}) error {
			var key string
			var n noted
			err := row.Scan(&key, pg.UTC(&n.changed), &n.pauses)
			notes[key] = n
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read when columns have changed: %w", err)
	}
	return notes, nil
}

const (
	// freshFor is how long after the query for a row its steps may act. The time of the query itself does not count:
	// another query would take as long.
	freshFor = 10 * time.Millisecond
	// freshRows is how many rows are read again at once while statements act. Each of them takes part of freshFor.
	freshRows = 64
)

// look reads rows again whose steps are about to act, if the first was read a while ago, and decides again about those
// that have changed: an application may have closed a row while the steps of others acted.
func (p *page) look(ctx context.Context, rows []int) error {
	if len(rows) == 0 || time.Since(p.turns[rows[0]].readAt) < freshFor {
		return nil
	}
	before := make([]seen, len(rows))
	for n, i := range rows {
		before[n] = p.turns[i].seen
	}
	switch err := p.read(ctx, rows); {
	case errors.Is(err, errLocked):
		return p.deferLocked(ctx, rows)
	case err != nil:
		return err
	}
	for n, i := range rows {
		t := &p.turns[i]
		if p.results[i].Err != nil || reflect.DeepEqual(before[n], t.seen) {
			continue
		}
		t.events, p.results[i] = nil, jobs.Result{}
		if !t.seen.Since.Equal(before[n].Since) { // what has fired since then was not read
			p.postpone(i)
			continue
		}
		p.plan(i)
		p.prepare(i)
	}
	return nil
}

// deferLocked leaves rows to the next slot, because their table is locked. If a statement of the page has locked it,
// what was read before counts.
func (p *page) deferLocked(ctx context.Context, rows []int) error {
	var own bool
	if err := pg.One(ctx, p.tx, pg.RuleLocks.In(p.Schema), []any{pq.Array(p.rule.written())}, &own); err != nil {
		return fmt.Errorf("find out who has locked %s: %w", p.rule.Relation, err)
	}
	for _, i := range rows {
		if !own && p.results[i].Err == nil {
			p.fail(i, errLocked)
		}
	}
	return nil
}

// postpone leaves all of a row to the next slot.
func (p *page) postpone(i int) {
	next := p.grid.Next(p.moment(p.rows[i]).Begun)
	p.turns[i].is, p.turns[i].events = Decision{Next: next}, nil
	p.results[i] = jobs.Result{Next: &next}
}

// readOnly runs fn in a transaction in which a query can neither write nor exceed its timeout. Names
// without a schema are those of PostgreSQL, as in the triggers of the rule.
func (p *page) readOnly(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	limits := fmt.Sprintf("set local statement_timeout = %d; set local lock_timeout = %d; %s",
		p.Timeout.Milliseconds(), lockTime.Milliseconds(), rulesession.Read)
	db, err := p.DB(ctx)
	if err != nil {
		return err
	}
	return pg.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, limits); err != nil {
			return fmt.Errorf("limit the transaction: %w", err)
		}
		return fn(tx)
	})
}

// asReader lets a transaction read as the role of the rule, until asLogin.
func (p *page) asReader(ctx context.Context, tx *sqlx.Tx) error {
	if p.rule.Rule.Role == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "set local role "+pq.QuoteIdentifier(p.rule.Rule.Role))
	return err
}

// asLogin lets the rest of a transaction read as the login again.
func (p *page) asLogin(ctx context.Context, tx *sqlx.Tx) error {
	if p.rule.Rule.Role == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "reset role")
	return err
}

// denied adds to an error that denies the query the statements that allow it. Returns other errors as they are, and
// those about other objects than the table, its schema, its row security and the role.
func (p *page) denied(ctx context.Context, err error) error {
	if !pg.HasState(err, pqerror.InsufficientPrivilege) {
		return err
	}
	if pg.IsRowSecurity(err) {
		return fmt.Errorf("%w. Rows that it hides would look gone: "+
			"give the rule a role that owns the table, or one with bypassrls", err)
	}
	db, problem := p.DB(ctx)
	if problem != nil {
		return err
	}
	r := &p.rule.Applied
	var login string
	var member bool
	var grants pq.StringArray
	problem = pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		return pg.One(ctx, tx, pg.RuleReader.In(p.Schema),
			[]any{r.Rule.Role, r.Relation, pq.Array(slices.Concat(r.Reads, r.Payload))}, &login, &member, &grants)
	})
	switch role := pq.QuoteIdentifier(r.Rule.Role); {
	case problem != nil:
		return err
	case !member:
		return fmt.Errorf("%w: login %s is no member of role %s of the rule: grant %[3]s to %[2]s", err, login, role)
	case len(grants) > 0:
		return fmt.Errorf("%w. The owner of the table gives the right: %s", err, strings.Join(grants, "; "))
	}
	return err
}
