// Package ledger reads the ledger of slots for operators: which slots were missed, left open or
// late, and how the jobs do. It also changes the grid, and prunes the ledger.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Ledger reads the ledger, and changes the grid. It is safe for concurrent use.
type Ledger struct {
	db      *sqlx.DB
	schema  pgsql.Schema
	setting pgsql.Setting
	now     func() time.Time
	reads   pg.Querier // nil: each read has a transaction of its own
	actor   string     // of changes; empty: the role
}

// New reads the grid from the database. now is the clock that slots are compared with; nil: the database's.
func New(ctx context.Context, db pgsql.Pool, schema string, now func() time.Time) (*Ledger, error) {
	name, err := pgsql.ParseSchema(schema)
	if err != nil {
		return nil, err
	}
	setting, err := pgsql.ReadSetting(ctx, db, name)
	if err != nil {
		return nil, err
	}
	return Of(db, name, setting, now), nil
}

// Of is New with settings that were read.
func Of(db pgsql.Pool, schema pgsql.Schema, setting pgsql.Setting, now func() time.Time) *Ledger {
	if now == nil {
		now = setting.Now
	}
	return &Ledger{db: pg.Sqlx(db), schema: schema, setting: setting, now: now}
}

// In returns a ledger that reads in a transaction of the caller. The transaction must have called
// [pg.SlotIndexOnly]. Changes of the ledger have transactions of their own.
func (l *Ledger) In(_ reserved.Caller, tx pg.Querier) *Ledger {
	in := *l
	in.reads = tx
	return &in
}

// Grid returns the grid of the database.
func (l *Ledger) Grid() grid.Grid { return l.setting.Grid }

// Now returns the instant that slots are compared with.
func (l *Ledger) Now() time.Time { return l.now() }

// Status is the state of the slots at one moment.
type Status struct {
	Now     time.Time
	Grid    grid.Grid
	Since   time.Time // first slot the ledger must have
	Current SlotRun   // the slot that has begun last; its State is empty if no run has opened it yet
	// Trouble lists the past slots that are missed, left open, or have stragglers, oldest first. It has the oldest
	// 1,000 slots that are open or have rows, and as many that are missed without rows. MoreMissed
	// and MoreOpen count the other missed and open slots.
	Trouble    []Trouble
	MoreMissed int64
	MoreOpen   int64
	MoreRows   bool // more slots have rows, which Trouble does not count
	// Running lists the open slots that have a runner.
	Running []Trouble
	// Claims lists the claims of open slots.
	Claims []Claim
	// Last is the run that did something last. Nil: no slot was run.
	Last *LastRun
}

// LastRun is the run that did something last.
type LastRun struct {
	Slot       time.Time  `json:"slot"`
	Kind       slots.Kind `json:"kind"`
	OpenedAt   time.Time  `json:"opened_at"`   // when its runner opened the slot, or opened it again; UTC
	FinishedAt *time.Time `json:"finished_at"` // UTC; null: the slot is not done
	Runner     string     `json:"runner"`      // the machine and the process
}

// OpenedLate sums up the slots that were opened long after they began.
type OpenedLate struct {
	Slots    int64         `json:"slots"`     // that a run or catch-up has opened late in the last 24 hours
	CaughtUp int64         `json:"caught_up"` // of these, slots that were missed before catch-up opened them
	First    *time.Time    `json:"first"`     // of these slots; UTC; null: there are none
	Last     *time.Time    `json:"last"`      // of these slots; UTC; null: there are none
	Longest  duration.Text `json:"longest"`   // the longest time from the beginning of a slot until it was opened
}

// String says how many slots were opened late.
func (o OpenedLate) String() string {
	text := spoken.Count(o.Slots, "slot", "slots") + " in 24 hours"
	switch o.Slots {
	case 0:
		return text
	case 1:
		text += fmt.Sprintf(": %s, %s after it began", spoken.Instant(*o.First), spoken.Duration(time.Duration(o.Longest)))
	default:
		text += fmt.Sprintf(": %s to %s, up to %s after they began", spoken.Instant(*o.First), spoken.Instant(*o.Last),
			spoken.Duration(time.Duration(o.Longest)))
	}
	if o.CaughtUp > 0 {
		text += fmt.Sprintf("; %d by catch-up", o.CaughtUp)
	}
	return text
}

// Trouble is a past slot that is missed, left open, or has stragglers.
type Trouble struct {
	Slot  time.Time
	State slots.State // slots.StateMissed, StateOpen (left by its runners), or StateDone (stragglers)
	Jobs  []JobCount  // its rows that are not of paused jobs
	Live  int64       // runners that are at it
	// WaitedFor is the session whose lock its rows have waited for; of several, the last. Empty: none.
	WaitedFor string
}

// Claim is a runner's right to rows of an open slot.
type Claim struct {
	Slot   time.Time  `json:"slot"`
	Token  int64      `json:"token,string"` // a text, because it has more digits than a number of JavaScript
	Kind   slots.Kind `json:"kind"`         // of the runner: run or catch_up
	Jobs   []string   `json:"jobs"`         // whose rows it holds; none: the runner works on the slot and may claim more
	Runner string     `json:"runner"`
	// Until is when the claim expires, in the past if its runner has not been heard of for too long. Nil: it was
	// handed back.
	Until *time.Time `json:"until"`
	Live  bool       `json:"live"` // the lease has not ended
}

// OK reports whether no slot is in trouble.
func (s Status) OK() bool { return len(s.Trouble) == 0 }

// Waiting returns the number of rows in the slot that are not of paused jobs.
func (t Trouble) Waiting() Count { return sum(t.Jobs) }

func sum(list []JobCount) (n Count) {
	for _, c := range list {
		n = n.Plus(c.Waiting)
	}
	return n
}

// Status looks for slots in trouble from since on; the zero time looks as far back as the ledger goes. Each is found
// through the ledger and probed by equality.
func (l *Ledger) Status(ctx context.Context, since time.Time) (Status, error) {
	now := l.now()
	s := Status{Now: now, Grid: l.Grid(), Since: l.setting.Since}
	current := l.Grid().Floor(now)
	args := []any{timeOr(since, grid.Min()), current, pg.MostMissed}
	found, err := list(ctx, l, pg.LedgerTrouble, args, func(row *sql.Rows, t *Trouble) error {
		var names pq.StringArray
		var counts pq.Int64Array
		var stopped pq.BoolArray
		err := row.Scan(pg.UTC(&t.Slot), &t.State, &names, &counts, &stopped, &t.Live, &t.WaitedFor, &s.MoreMissed,
			&s.MoreOpen, &s.MoreRows)
		for i, name := range names {
			t.Jobs = append(t.Jobs, JobCount{JobExec: name, Waiting: Count{counts[i], stopped[i]}})
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("read the status: %w", err)
	}
	s.Current, err = l.Show(ctx, current)
	if errors.Is(err, ErrNoSlot) {
		s.Current, err = SlotRun{Slot: current}, nil
	}
	if err != nil {
		return s, err
	}
	byHand := s.Current.Kind == slots.KindByHand && s.Current.State == slots.StateOpen
	for _, t := range found {
		switch {
		case t.Live > 0:
			s.Running = append(s.Running, t)
			byHand = byHand && !t.Slot.Equal(current)
		case !byHand || !t.Slot.Equal(current):
			s.Trouble = append(s.Trouble, t)
		}
	}
	if byHand { // its run is still to come
		s.Current = SlotRun{Slot: current}
	}
	if s.Claims, err = l.Claims(ctx, time.Time{}); err != nil {
		return s, err
	}
	if s.Last, err = l.last(ctx, current); err != nil {
		return s, err
	}
	return s, nil
}

// last returns the run that did something last, in the newest slots up to one.
func (l *Ledger) last(ctx context.Context, slot time.Time) (*LastRun, error) {
	found, err := list(ctx, l, pg.LedgerLast, []any{slot}, func(row *sql.Rows, r *LastRun) error {
		return row.Scan(pg.UTC(&r.Slot), &r.Kind, pg.UTC(&r.OpenedAt), pg.UTC(&r.FinishedAt), &r.Runner)
	})
	if err != nil || len(found) == 0 {
		return nil, wrapped("read the last run", err)
	}
	return &found[0], nil
}

// OpenedLate sums up the slots that a run or catch-up has opened since an instant, more than late after they began. It
// looks back at the newest 1,000 slots at least.
func (l *Ledger) OpenedLate(ctx context.Context, since time.Time, late time.Duration) (o OpenedLate, err error) {
	args := []any{since, l.now(), late.Seconds()}
	_, err = list(ctx, l, pg.LedgerOpenedLate, args, func(row *sql.Rows, _ *struct{}) error {
		return row.Scan(&o.Slots, &o.CaughtUp, pg.UTC(&o.First), pg.UTC(&o.Last), pg.Micros(&o.Longest))
	})
	return o, wrapped("read which slots were opened late", err)
}

// SlotRun is a row of the ledger.
type SlotRun struct {
	Slot  time.Time   `json:"slot"`
	State slots.State `json:"state"` // open or done; of a slot without a row: missed, due, ahead or no ledger
	Kind  slots.Kind  `json:"kind"`
	// Planned is the number of rows when the slot was opened; an estimate when there were many.
	Planned int64 `json:"planned"`
	// Checked = Finished + Rescheduled + Failed: the rows whose outcome was recorded.
	Checked     int64      `json:"checked"`
	Finished    int64      `json:"finished"`
	Rescheduled int64      `json:"rescheduled"`
	Failed      int64      `json:"failed"`
	TakeOvers   int64      `json:"take_overs"`  // claims that a runner took over from another one
	OpenedAt    *time.Time `json:"opened_at"`   // UTC; null: no run has opened it
	FinishedAt  *time.Time `json:"finished_at"` // UTC; null: it is not done
	// Took is how long runners have worked on it; so far, if it is open. Zero: no run has opened it.
	Took duration.Text `json:"took"`
	// Runners are those that worked on it: the first hundred, and how many came after them.
	Runners []string `json:"runners"`
	// WaitedFor is the session whose lock its rows have waited for; of several, the last. Empty: none.
	WaitedFor string `json:"waited_for"`
}

// ErrNoSlot is returned for a slot that has no ledger row.
var ErrNoSlot = errors.New("the slot was never opened")

// List returns the ledger rows of slots from one instant up to but not including another, the newest
// first, at most limit of them; 0: all. It reads them page by page, each in a transaction of its own.
// After an error the list ends.
func (l *Ledger) List(ctx context.Context, from, to time.Time, limit int) iter.Seq2[SlotRun, error] {
	return seq.Pages(to, limit, func(to time.Time, limit int) (page []SlotRun, next time.Time, err error) {
		page, err = l.page(ctx, from, to, limit)
		if len(page) == limit {
			next = page[limit-1].Slot
		}
		return page, next, err
	})
}

// page returns the newest ledger rows of slots from one instant up to but not including another.
func (l *Ledger) page(ctx context.Context, from, to time.Time, limit int) ([]SlotRun, error) {
	args := []any{timeOr(from, grid.Min()), timeOr(to, grid.Max()), limit}
	runs, err := list(ctx, l, pg.SlotList, args, func(row *sql.Rows, r *SlotRun) error {
		var names pq.StringArray
		err := row.Scan(pg.UTC(&r.Slot), &r.State, &r.Kind, &r.Planned, &r.Checked, &r.Finished, &r.Rescheduled, &r.Failed,
			&r.TakeOvers, pg.UTC(&r.OpenedAt), pg.UTC(&r.FinishedAt), &names, &r.WaitedFor, pg.Micros(&r.Took))
		r.Runners = append([]string{}, names...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list slots: %w", err)
	}
	return runs, nil
}

// Show returns the ledger row of a slot with what its runners have recorded so far, or ErrNoSlot.
func (l *Ledger) Show(ctx context.Context, slot time.Time) (SlotRun, error) {
	runs, err := l.page(ctx, slot, slot.Add(time.Microsecond), 1)
	if err == nil && len(runs) == 0 {
		err = ErrNoSlot
	}
	if err != nil {
		return SlotRun{}, fmt.Errorf("show slot %s: %w", spoken.Instant(slot), err)
	}
	return runs[0], nil
}

// Claims returns the claims of a slot, or of all open slots for the zero time; 1,000 at the most.
func (l *Ledger) Claims(ctx context.Context, slot time.Time) ([]Claim, error) {
	only := sql.NullTime{Time: slot, Valid: !slot.IsZero()}
	claims, err := list(ctx, l, pg.ClaimList, []any{only}, func(row *sql.Rows, v *Claim) error {
		var names pq.StringArray
		var until time.Time // handed back: the beginning of Unix time
		err := row.Scan(pg.UTC(&v.Slot), &v.Token, &v.Kind, &names, &v.Runner, &until, &v.Live)
		if until.Unix() > 0 {
			v.Until = new(until.UTC())
		}
		v.Jobs = append([]string{}, names...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return claims, nil
}

// JobCount is how many rows of a job wait in a slot.
type JobCount struct {
	JobExec string
	Waiting Count
	Paused  bool // its job is; Ledger.Waiting alone tells
}

// Waiting counts the waiting rows of a slot by job.
func (l *Ledger) Waiting(ctx context.Context, slot time.Time) ([]JobCount, error) {
	counts, err := list(ctx, l, pg.SlotWaiting, []any{slot}, func(row *sql.Rows, c *JobCount) error {
		return row.Scan(&c.JobExec, &c.Waiting.N, &c.Waiting.AtLeast, &c.Paused)
	})
	if err != nil {
		return nil, fmt.Errorf("count what waits in slot %s: %w", spoken.Instant(slot), err)
	}
	return counts, nil
}

// As returns a ledger whose changes name an actor, see jobs.SetActor.
func (l *Ledger) As(actor string) *Ledger {
	as := *l
	as.actor = actor
	return &as
}

// SetWidth changes the width of the grid and moves waiting rows onto it, later or not at all, in one transaction that
// blocks every writer. It returns the number of moved rows. It is refused while a slot is open, and if a transaction
// that has read or written checks stays open for 3 s.
func (l *Ledger) SetWidth(ctx context.Context, g grid.Grid) (moved int64, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		if l.actor != "" {
			if err := jobs.SetActor(ctx, tx, l.actor); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, pg.SetWidth.In(l.schema), int64(g.Width()/time.Second), l.now()).Scan(&moved)
	})
	if err != nil {
		return 0, fmt.Errorf("set the width to %s: %w", spoken.Duration(g.Width()), err)
	}
	return moved, nil
}

// Begin lets the ledger begin at a slot, for a replay of the past: status and catch-up look no further back.
func (l *Ledger) Begin(ctx context.Context, slot time.Time) error {
	err := pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pg.LedgerBegin.In(l.schema), slot)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin the ledger at %s: %w", spoken.Instant(slot), err)
	}
	return nil
}

// pruneBatch is how many slots a transaction of Prune forgets at most.
const pruneBatch = 10_000

// Prune deletes the ledger rows of slots before an instant, the oldest first, and returns their number. It keeps
// everything from the first slot on that is in trouble, open or has rows, so that no missed slot is forgotten. Each
// transaction is bounded; after an error, the slots that were counted stay forgotten.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (forgotten int64, err error) {
	status, err := l.Status(ctx, time.Time{})
	if err != nil {
		return 0, err
	}
	for _, t := range append(status.Trouble, status.Running...) {
		before = grid.Earlier(before, t.Slot)
	}
	before = grid.Earlier(before, status.Current.Slot)
	for {
		var n int64
		err := pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
			return tx.QueryRowContext(ctx, pg.LedgerPrune.In(l.schema), before, pruneBatch).Scan(&n)
		})
		if err != nil {
			return forgotten, fmt.Errorf("prune the ledger: %w", err)
		}
		if forgotten += n; n < pruneBatch {
			return forgotten, nil
		}
	}
}

// list runs a statement in a transaction and returns its rows.
func list[T any](
	ctx context.Context, l *Ledger, stmt pg.Statement, args []any, scan func(row *sql.Rows, v *T) error,
) (rows []T, err error) {
	if l.reads != nil {
		return pg.Collect(ctx, l.reads, stmt.In(l.schema), args, scan)
	}
	err = pgsql.ReadTx(ctx, l.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pg.SlotIndexOnly.In(l.schema)); err != nil {
			return err
		}
		rows, err = pg.Collect(ctx, tx, stmt.In(l.schema), args, scan)
		return err
	})
	return rows, err
}

func timeOr(t, fallback time.Time) time.Time {
	if t.IsZero() {
		return fallback
	}
	return t
}
