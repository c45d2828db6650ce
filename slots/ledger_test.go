package slots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

var matrixSlot = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// matrix is one (slot, shard) with one row in it, and two runners that want it.
type matrix struct {
	t          testing.TB
	db         *sqlx.DB
	mine       *ledger
	other      *ledger
	mineClaim  claim
	otherClaim claim
}

func newMatrix(t testing.TB) *matrix {
	db := pgtest.New(t)
	m := &matrix{t: t, db: db}
	m.mine = &ledger{db: db, slot: matrixSlot, runner: "mine", lease: time.Minute}
	m.other = &ledger{db: db, slot: matrixSlot, runner: "other", lease: time.Minute}
	m.enqueue()
	return m
}

// enqueue puts a row into the shard; always the same one, since the entity is the same.
func (m *matrix) enqueue() {
	m.t.Helper()
	client, err := jobs.NewClient(m.t.Context(), m.db, jobs.Config{Now: func() time.Time { return matrixSlot.Add(-time.Hour) }})
	if err != nil {
		m.t.Fatal(err)
	}
	job := jobs.FutureJob{JobExec: "job", EntityName: "order", EntityKey: "1"}
	job.SetCheckAt(grid.Default, matrixSlot)
	if _, err := client.Enqueue(m.t.Context(), m.db, job, jobs.Keep); err != nil {
		m.t.Fatal(err)
	}
}

func (m *matrix) exec(query string) {
	m.t.Helper()
	if _, err := m.db.ExecContext(m.t.Context(), query); err != nil {
		m.t.Fatal(err)
	}
}

func (m *matrix) expire() {
	m.exec(`update prescient.slot_lease set allocated_until = clock_timestamp() - interval '1 second'`)
}

func (m *matrix) finishRow() { m.exec(`delete from prescient.future_job`) }

func (m *matrix) open(l *ledger, stragglers bool) State {
	m.t.Helper()
	state, _, err := l.open(m.t.Context(), KindRun, stragglers)
	if err != nil {
		m.t.Fatal(err)
	}
	return state
}

func (m *matrix) claim(l *ledger) claim {
	m.t.Helper()
	claims, err := l.claim(m.t.Context(), allShards)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(claims) == 0 {
		return claim{}
	}
	return claims[0]
}

// record writes nothing but the fences.
func (m *matrix) record() error {
	s := &scan{Runner: &Runner{cfg: Config{Name: "mine"}}, ledger: m.mine}
	return pgsql.InTx(m.t.Context(), m.db, func(tx *sqlx.Tx) error {
		n := tallies{{claim: m.mineClaim}: {}}
		if _, err := s.fenceShared(m.t.Context(), tx, n); err != nil {
			return err
		}
		_, err := s.fence(m.t.Context(), tx, n)
		return err
	})
}

// state describes the (slot, shard) as the database has it.
func (m *matrix) state() string {
	m.t.Helper()
	var run *string
	var runner *string
	var leases int
	var live bool
	err := m.db.QueryRowContext(m.t.Context(), `
		select
		    (select state from prescient.slot_run),
		    (select count(*) from prescient.slot_lease),
		    (select runner from prescient.slot_lease),
		    coalesce((select allocated_until > clock_timestamp() from prescient.slot_lease), false)`).Scan(&run, &leases, &runner, &live)
	switch {
	case err != nil:
		m.t.Fatal(err)
	case run == nil:
		return "none"
	case leases == 0:
		return *run // done
	case runner == nil:
		return "free"
	case !live:
		return "expired"
	}
	return "claimed by " + *runner
}

// The states of a (slot, shard), each with how to bring it about.
var states = []struct {
	name string
	make func(m *matrix)
}{
	{"none", func(*matrix) {}},
	{"free", func(m *matrix) { m.open(m.mine, false) }},
	{"claimed by mine", func(m *matrix) {
		m.open(m.mine, false)
		m.mineClaim = m.claim(m.mine)
	}},
	{"claimed by other", func(m *matrix) {
		m.open(m.mine, false)
		m.mineClaim = m.claim(m.mine)
		m.expire()
		m.otherClaim = m.claim(m.other)
	}},
	{"expired", func(m *matrix) {
		m.open(m.mine, false)
		m.mineClaim = m.claim(m.mine)
		m.expire()
	}},
	{"done", func(m *matrix) {
		m.open(m.mine, false)
		m.mineClaim = m.claim(m.mine)
		m.finishRow()
		if _, done, err := m.mine.close(m.t.Context(), []claim{m.mineClaim}); err != nil || !done {
			m.t.Fatal(done, err)
		}
	}},
}

// The events, by what "mine" does. Each returns a word for what the runner was told.
var events = []struct {
	name string
	do   func(m *matrix) string
	want map[string][2]string // state before -> answer, state after
}{
	{
		"open", func(m *matrix) string { return string(m.open(m.mine, false)) },
		map[string][2]string{
			"none": {"open", "free"}, "free": {"open", "free"}, "claimed by mine": {"open", "claimed by mine"},
			"claimed by other": {"open", "claimed by other"}, "expired": {"open", "expired"}, "done": {"done", "done"},
		},
	},
	{
		"open for stragglers", func(m *matrix) string { m.enqueue(); return string(m.open(m.mine, true)) },
		map[string][2]string{
			"none": {"open", "free"}, "free": {"open", "free"}, "claimed by mine": {"open", "claimed by mine"},
			"claimed by other": {"open", "claimed by other"}, "expired": {"open", "expired"}, "done": {"open", "free"},
		},
	},
	{
		"open for stragglers when there are none", func(m *matrix) string { m.finishRow(); return string(m.open(m.mine, true)) },
		map[string][2]string{
			"none": {"done", "done"}, "free": {"open", "free"}, "claimed by mine": {"open", "claimed by mine"},
			"claimed by other": {"open", "claimed by other"}, "expired": {"open", "expired"}, "done": {"done", "done"},
		},
	},
	{
		"claim", func(m *matrix) string {
			c := m.claim(m.mine)
			if c.token != 0 && c.token <= m.mineClaim.token {
				m.t.Errorf("token %d after %d: tokens must grow", c.token, m.mineClaim.token)
			}
			return map[bool]string{false: "nothing", true: "shard"}[c.token != 0] + map[bool]string{true: " taken over"}[c.expired]
		},
		map[string][2]string{
			"none": {"nothing", "none"}, "free": {"shard", "claimed by mine"}, "claimed by mine": {"nothing", "claimed by mine"},
			"claimed by other": {"nothing", "claimed by other"}, "expired": {"shard taken over", "claimed by mine"},
			"done": {"nothing", "done"},
		},
	},
	{
		"renew", func(m *matrix) string {
			kept, err := m.mine.renew(m.t.Context(), []claim{m.mineClaim})
			return fmt.Sprint(len(kept) == 1, err)
		},
		map[string][2]string{
			"none": {"false <nil>", "none"}, "free": {"false <nil>", "free"}, "claimed by mine": {"true <nil>", "claimed by mine"},
			"claimed by other": {"false <nil>", "claimed by other"}, "expired": {"true <nil>", "claimed by mine"},
			"done": {"false <nil>", "done"},
		},
	},
	{
		"record", func(m *matrix) string { return fmt.Sprint(m.record()) },
		map[string][2]string{
			"none": {"lease lost", "none"}, "free": {"lease lost", "free"}, "claimed by mine": {"<nil>", "claimed by mine"},
			"claimed by other": {"lease lost", "claimed by other"},
			// Nobody has taken it over, so nobody else can have checked its rows.
			"expired": {"<nil>", "expired"},
			"done":    {"lease lost", "done"},
		},
	},
	{
		"close with a row left", func(m *matrix) string {
			closed, done, err := m.mine.close(m.t.Context(), []claim{m.mineClaim})
			return fmt.Sprint(len(closed), done, err)
		},
		map[string][2]string{
			"none": {"0 false <nil>", "none"}, "free": {"0 false <nil>", "free"}, "claimed by mine": {"0 false <nil>", "claimed by mine"},
			"claimed by other": {"0 false <nil>", "claimed by other"}, "expired": {"0 false <nil>", "expired"},
			"done": {"0 false <nil>", "done"},
		},
	},
	{
		"close when empty", func(m *matrix) string {
			m.finishRow()
			closed, done, err := m.mine.close(m.t.Context(), []claim{m.mineClaim})
			return fmt.Sprint(len(closed), done, err)
		},
		map[string][2]string{
			"none": {"0 false <nil>", "none"}, "free": {"0 false <nil>", "free"}, "claimed by mine": {"1 true <nil>", "done"},
			"claimed by other": {"0 false <nil>", "claimed by other"}, "expired": {"1 true <nil>", "done"},
			"done": {"0 false <nil>", "done"},
		},
	},
	{
		"release", func(m *matrix) string { return fmt.Sprint(m.mine.release(m.t.Context(), []claim{m.mineClaim})) },
		map[string][2]string{
			"none": {"<nil>", "none"}, "free": {"<nil>", "free"}, "claimed by mine": {"<nil>", "free"},
			"claimed by other": {"<nil>", "claimed by other"}, "expired": {"<nil>", "free"}, "done": {"<nil>", "done"},
		},
	},
}

func TestEachEventInEachStateOfAShard(t *testing.T) {
	t.Parallel()
	for _, state := range states {
		for _, event := range events {
			t.Run(state.name+"/"+event.name, func(t *testing.T) {
				t.Parallel()
				m := newMatrix(t)
				state.make(m)
				if got := m.state(); got != state.name {
					t.Fatalf("the shard is %q before the event", got)
				}
				want, ok := event.want[state.name]
				if !ok {
					t.Fatal("the matrix has a hole")
				}
				if got := event.do(m); got != want[0] {
					t.Errorf("the runner was told %q, want %q", got, want[0])
				}
				if got := m.state(); got != want[1] {
					t.Errorf("the shard is %q after the event, want %q", got, want[1])
				}
			})
		}
	}
}

func TestTheLastOfTwoRunnersThatCloseTogetherClosesTheSlot(t *testing.T) {
	t.Parallel()
	for range 20 {
		m := newMatrix(t)
		m.exec(`insert into prescient.future_job (job_exec, entity_name, entity_key, first_check_at, next_check_at)
			select 'job', 'order', n::text, next_check_at, next_check_at from prescient.future_job, generate_series(2, 50) as n`)
		m.open(m.mine, false)
		mine, err := m.mine.claim(t.Context(), 8)
		if err != nil {
			t.Fatal(err)
		}
		other, err := m.other.claim(t.Context(), allShards)
		if err != nil {
			t.Fatal(err)
		}
		if len(mine) != 8 || len(other) == 0 {
			t.Fatalf("claimed %d and %d shards", len(mine), len(other))
		}
		m.finishRow()
		last := make(chan bool)
		for _, hold := range []struct {
			l      *ledger
			claims []claim
		}{{m.mine, mine}, {m.other, other}} {
			go func() {
				_, done, err := hold.l.close(context.WithoutCancel(t.Context()), hold.claims)
				if err != nil {
					t.Error(err)
				}
				last <- done
			}()
		}
		if answers := []bool{<-last, <-last}; !slices.Contains(answers, true) || answers[0] == answers[1] {
			t.Fatalf("closed the slot: %v, want exactly one", answers)
		}
		if got := m.state(); got != "done" {
			t.Fatalf("the slot is %q", got)
		}
	}
}

func TestAStaleTokenDoesNotFitAShardThatWasOpenedAgain(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	states[len(states)-1].make(m) // done
	m.enqueue()
	m.open(m.other, true)
	m.otherClaim = m.claim(m.other)
	if err := m.record(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a token from before the slot was closed: %v, want ErrLeaseLost", err)
	}
}

// Not in parallel: no transaction of another test may be in progress.
func TestAShardIsSettledOnceWhateverBeganBeforeItsSlotWasOpenedHasEnded(t *testing.T) {
	m := newMatrix(t)
	early := m.db.MustBegin()
	if _, err := early.ExecContext(t.Context(), `select pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	m.open(m.mine, false)
	if m.claim(m.mine).settled {
		t.Error("settled, though a transaction from before may still write")
	}
	after := m.db.MustBegin()
	defer func() { _ = after.Rollback() }()
	if _, err := after.ExecContext(t.Context(), `select pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	if err := early.Commit(); err != nil {
		t.Fatal(err)
	}
	m.expire()
	if !m.claim(m.mine).settled {
		t.Error("not settled, though only a transaction from after is in progress")
	}
	m.expire()
	if m.claim(m.other).settled {
		t.Error("settled for a runner that does not know when the slot was opened")
	}
}
