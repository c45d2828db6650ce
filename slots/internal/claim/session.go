package claim

import (
	"context"
	"database/sql"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// settleTries and settleEvery bound how long a run waits for the transactions from before its slot to
// end. Most of them are short. If one goes on, the run must look through the whole slot for rows that
// the transaction may have brought.
const (
	settleTries = 10
	settleEvery = 10 * time.Millisecond
)

// Session is the part of a run in a slot. It opens and closes the slot, and claims and reads its rows. Its methods are
// safe for concurrent use: one claim or read at a time has a connection.
type Session struct {
	*phase.Contexts
	Server *db.Server

	Slot   time.Time
	Entry  Entry
	Token  int64      // of the run, which shows that it is at the slot
	Runner string     // its name
	Most   int64      // rows to read; 0: any number
	Clock  func() any // returns the instant of a replayed clock; nil: the clock of the database counts
	Jobs   *row.Jobs  // of the slot, which the run can check

	Turn chan struct{} // has room for the claim or read that has a connection, of all sessions that share it

	Found Opened // the slot, as Open found it

	taken int64 // rows that were read; only the read with the turn uses it
}

// Entry describes a run to the ledger when the run opens its slot.
type Entry struct {
	Kind   string // slots.Kind
	ByHand bool   // an operator asked for it: the ledger tells of no catch-up
	Able   int    // checks that the run can do at once
}

// Opened describes the slot as the run found it.
type Opened struct {
	State string // of prescient.open_slot: early, done, busy or open
	Kind  string // why the slot was opened at first: a slots.Kind
	// LeftBefore reports that a runner has left the slot or died in it, and may have called functions without a record.
	LeftBefore bool
	// Position is the number of the runner among those of the slot, by which journals name it.
	Position int

	Planned int64         // rows; an estimate if there are many
	Ahead   time.Duration // until a slot that is early begins; 0: it is off the grid
	Taken   int           // claims of dead runners, whose rows can be claimed again

	settled bool // no transaction can bring more rows
}

// Job is a job that has rows in the slot.
type Job struct {
	Number    int64
	Name      string
	Claimable bool
	Missed    bool // it was paused when a run closed or left the slot
}

// Known has the jobs that a run can check, by number and by name. A job whose first enqueue has not committed has no
// name yet, and one that was registered after the run was made has no number here.
type Known struct {
	Numbers []int64
	Names   []string
}

// MostUnknown is how many jobs that a run cannot check are listed. An application may enqueue rows of any number of
// names, and would exhaust the memory of the run.
const MostUnknown = 1000

// Open lets the run into the slot, and opens the slot if no runner has. If the slot has more than few
// rows, it waits until all rows are there, but at most a tenth of a second. It repeats what the
// database cannot do now until the run is stopped.
func (s *Session) Open(few int64, known Known) (o Opened, list []Job, err error) {
	taken := 0
	for try := 0; ; try++ {
		o, list, err = s.openOnce(known)
		taken += o.Taken
		o.Taken = taken
		s.Found = o
		if err != nil || o.State != "open" || o.settled || try == settleTries || o.Planned <= few ||
			!elapsed.Sleep(s.Stop, settleEvery) {
			return o, list, err
		}
	}
}

func (s *Session) openOnce(known Known) (o Opened, list []Job, err error) {
	var planned, taken sql.NullInt64
	var ahead int64
	var settled sql.NullBool
	var m pg.Message
	args := []any{
		s.Slot, s.Entry.Kind, s.Token, s.Runner, s.Server.Lease.Microseconds(), s.Clock(), s.Entry.Able, s.Entry.ByHand,
	}
	m.Add(pg.SlotOpen.In(s.Server.Schema), args, func(row *sql.Rows) error {
		return row.Scan(&o.State, &planned, &settled, &ahead, &taken, &o.Position, &o.Kind, &o.LeftBefore)
	})
	list, err = s.listJobs(s.Stop, &m, known)
	if err != nil {
		return Opened{}, nil, err
	}
	o.Planned, o.Taken, o.settled = planned.Int64, int(taken.Int64), settled.Bool
	o.Ahead = time.Duration(ahead) * time.Microsecond
	return o, list, nil
}

// ListJobs lists the jobs of the slot: those that are known, and up to MostUnknown others that have rows to claim.
// Those with few rows come first.
func (s *Session) ListJobs(known Known) ([]Job, error) {
	return s.listJobs(s.Work, new(pg.Message), known)
}

// listJobs sends a message, and lists the jobs with it. It repeats the message until ctx ends.
func (s *Session) listJobs(ctx context.Context, m *pg.Message, known Known) (list []Job, err error) {
	args := []any{s.Slot, pq.Int64Array(known.Numbers), pq.StringArray(known.Names), MostUnknown}
	m.Add(pg.SlotJobs.In(s.Server.Schema), args, func(row *sql.Rows) error {
		var j Job
		err := row.Scan(&j.Number, &j.Name, new(int64), &j.Claimable, &j.Missed)
		list = append(list, j)
		return err
	})
	err = s.Server.Retry(ctx, db.Retryable, func() error {
		list = nil
		return s.Server.Commit(s.Work, m)
	})
	return list, err
}

// Orphans lists the jobs of claims whose lease has ended.
func (s *Session) Orphans() (names []string, err error) {
	var m pg.Message
	m.Add(pg.ClaimOrphans.In(s.Server.Schema), []any{s.Slot}, func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	err = s.Server.Retry(s.Work, db.Retryable, func() error {
		names = nil
		return s.Server.Commit(s.Work, &m)
	})
	return names, err
}

// Close closes the slot if no work is left in it; see prescient.close_slot. skips is true if the run
// has skipped rows.
func (s *Session) Close(skips bool) (state string, err error) {
	err = s.Server.Ask(s.Work, s.Work, pg.SlotClose, []any{s.Slot, skips, nil}, func(row *sql.Rows) error {
		return row.Scan(&state)
	})
	return state, err
}
