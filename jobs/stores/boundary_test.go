package stores_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/stores"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const (
	// some is how many of the cases are tried when PRESCIENT_TEST_LONG does not ask for all, and a third of them in a
	// short test. PRESCIENT_TEST_SEED chooses them.
	some = 120
	// stages is how many trials take place at once.
	stages = 4
	// returnsWithin is how long a move may go on.
	returnsWithin = await.Limit
)

// stage is stores in which trials take place, one after the other: a in a database of its own, b
// and c in another one.
type stage struct {
	urls [2]string
	dbs  [2]*sqlx.DB
	set  *stores.Set // of every session but the mover
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{}
	for i := range s.urls {
		s.urls[i] = pgtest.Direct(t) // its faults are of the way to the server
		db, err := pgsql.Open(t.Context(), s.urls[i], pg.Name("stage"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s.dbs[i] = db
	}
	if err := pgsql.Migrate(t.Context(), s.dbs[1], "shard"); err != nil {
		t.Fatal(err)
	}
	s.set = newSet(t, s.list(s.dbs)...)
	return s
}

func (s *stage) list(dbs [2]*sqlx.DB) []stores.Store {
	return []stores.Store{{Name: "a", DB: dbs[0]}, {Name: "b", DB: dbs[1]}, {Name: "c", DB: dbs[1], Schema: "shard"}}
}

// who does something while a move goes on, and what is promised for it.
type who func(c *trial) (promise func() error)

// trial is a move with a fault, or an action of another session, at one of its round trips.
type trial struct {
	t        *testing.T
	stage    *stage
	schedule *schedule.Store // of a
}

// target is the key that the other session acts on.
const target = "k3"

var ofTarget = jobs.Key{JobExec: "remind", EntityName: "order", EntityKey: target}

// numbered is a check that its payload identifies in any row.
func numbered(key string, n, at int) jobs.Request {
	j := check(key, slot(at))
	j.Payload = fmt.Appendf(nil, `{"n": %d}`, n)
	return j
}

const (
	// rows is how many there are in a, and both the number of the one whose key waits in the other
	// stores, too.
	rows, both = 16, 15
	// theirs is the number of that one there, and later that of the one that somebody enqueues for
	// target.
	theirs, later = 100, 200
)

func newTrial(t *testing.T, stage *stage) *trial {
	t.Helper()
	c := &trial{t: t, stage: stage}
	for s := range stage.set.All() {
		exec(t, s, `
			delete from prescient.future_job; delete from prescient.future_job_history; delete from prescient.schedule; delete from prescient.schedule_state;
			delete from prescient.transfer_in; delete from prescient.transfer_out; delete from prescient.job;
			update prescient.setting set draining_since = null, draining_by = null`)
	}
	a, b, other := c.store("a"), c.store("b"), c.store("c")
	var list []jobs.Request
	for n := range rows {
		j := numbered(fmt.Sprint("k", n), n, 3+n%3)
		j.Anonymous = n == 7
		list = append(list, j)
	}
	for s, list := range map[*stores.Store][]jobs.Request{
		a: list, b: {numbered(fmt.Sprint("k", both), theirs, 9)}, other: {numbered(fmt.Sprint("k", both), theirs+1, 9)},
	} {
		if _, err := s.Client.EnqueueMany(t.Context(), jobs.OwnTx(s.DB), list); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.schedule, err = schedule.NewStore(t.Context(), a.DB, schedule.Config{Now: clock}); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []schedule.Spec{{ID: "hourly", Crontab: "0 * * * *"}, {ID: "daily", Crontab: "0 0 * * *"}, {ID: "off", Crontab: "0 * * * *", Paused: true}} {
		if _, err := c.schedule.Create(t.Context(), a.DB, spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stage.set.Drain(t.Context(), "a", "me"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *trial) store(name string) *stores.Store {
	store, err := c.stage.set.Get(name)
	if err != nil {
		c.t.Error(err)
	}
	return store
}

// play has a mover work at one of whose round trips to one of the two databases something happens,
// and a healthy one finish it. It returns the round trips.
func (c *trial) play(database int, fault pgtest.Fault) [2][]string {
	c.t.Helper()
	var ways [2]*pgtest.Faults
	for i, url := range c.stage.urls {
		ways[i] = pgtest.OpenFaults(c.t, url, pgtest.Unprepared)
	}
	set := newSet(c.t, c.stage.list([2]*sqlx.DB{ways[0].DB, ways[1].DB})...)
	ways[0].Set(pgtest.Fault{})
	ways[1].Set(pgtest.Fault{})
	ways[database].Set(fault)
	ctx, kill := context.WithTimeout(c.t.Context(), returnsWithin)
	defer kill()
	ended := make(chan error, 1)
	go func() {
		_, err := set.Move(ctx, stores.Move{From: "a"})
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil && fault.Kind == "" {
			c.t.Errorf("move: %v", err)
		}
	case <-ways[database].Died():
		ways[1-database].Kill() // all of the process has died
		kill()
		c.t.Logf("what has died says: %v", <-ended)
		c.bury()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.t.Errorf("the move has not returned after %s", returnsWithin)
	}
	for _, way := range ways {
		defer func() { _ = way.DB.Close() }()
	}
	return [2][]string{ways[0].Trips(), ways[1].Trips()}
}

// bury ends the sessions of a mover that has died: what it sent last may be done by then, or never
// will be.
func (c *trial) bury() {
	c.t.Helper()
	for _, db := range c.stage.dbs {
		_, err := db.Exec(`select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and application_name = 'prescient'`)
		if err != nil {
			c.t.Error(err)
		}
	}
}

// heal finishes the move.
func (c *trial) heal() {
	c.t.Helper()
	if _, err := c.stage.set.Move(c.t.Context(), stores.Move{From: "a"}); err != nil {
		c.t.Errorf("the next move: %v", err)
	}
}

// found is where a row is: in a store, waiting or ended with an outcome.
type found struct {
	Store   string
	N       int
	Key     string
	Outcome string
	Slot    time.Time
}

// all lists every row of the stores.
func (c *trial) all() (list []found) {
	c.t.Helper()
	for s := range c.stage.set.All() {
		part := []found{}
		query := pg.NewStatement(`
			select (payload ->> 'n')::integer as n, entity_key as key, '' as outcome, next_check_at as slot from prescient.future_job where entity_name = 'order'
			union all
			select (payload ->> 'n')::integer, entity_key, outcome, slot from prescient.future_job_history where entity_name = 'order'`).In(pgsql.Schema(s.Schema))
		if err := pg.Sqlx(s.DB).SelectContext(c.t.Context(), &part, query); err != nil {
			c.t.Fatal(err)
		}
		for _, f := range part {
			f.Store = s.Name
			list = append(list, f)
		}
	}
	return list
}

// judge holds the stores against what is promised: each row is in one place, and nothing is in
// between.
func (c *trial) judge() {
	c.t.Helper()
	places := map[int][]found{}
	waiting := map[string][]string{}
	for _, f := range c.all() {
		places[f.N] = append(places[f.N], f)
		if f.Outcome == "" {
			waiting[f.Key] = append(waiting[f.Key], f.Store)
		}
		if f.Outcome == "" && f.Store == "a" {
			c.t.Errorf("row %d is left in a", f.N)
		}
	}
	for n := range rows {
		if len(places[n]) != 1 {
			c.t.Errorf("row %d is in %d places: %+v", n, len(places[n]), places[n])
		}
	}
	if f := places[both]; len(f) == 1 && f[0].Outcome != "replaced" {
		c.t.Errorf("the row whose key waits elsewhere: %+v", f)
	}
	for key, where := range waiting {
		if len(where) > 1 && key != fmt.Sprint("k", both) {
			c.t.Errorf("key %s waits in %v", key, where)
		}
	}
	schedules := map[string]int{}
	for s := range c.stage.set.All() {
		if n := get[int](c.t, s, `select (select count(*) from prescient.transfer_in) + (select count(*) from prescient.transfer_out)`); n > 0 {
			c.t.Errorf("%d are left in %s between stores", n, s.Name)
		}
		for _, id := range strings.Fields(get[string](c.t, s, `
			select coalesce(string_agg(s.id || case when f.id is null then '' else '+row' end, ' '), '')
			from prescient.schedule s
			full join (select entity_key, id from prescient.future_job where entity_name = 'schedule') as f on f.entity_key = s.id`)) {
			schedules[id]++
			if s.Name == "a" {
				c.t.Errorf("schedule %s is left in a", id)
			}
		}
	}
	if want := map[string]int{"hourly+row": 1, "daily+row": 1, "off": 1}; !maps.Equal(schedules, want) {
		c.t.Errorf("schedules: %v", schedules)
	}
}

// somebody is an action of another session meanwhile.
var somebody = map[string]who{
	"cancel": func(c *trial) func() error {
		cancelled := 0
		for _, s := range c.stage.set.Candidates(target) {
			found, err := s.Client.Cancel(context.Background(), jobs.OwnTx(s.DB), ofTarget)
			if err != nil {
				c.t.Errorf("cancel in %s: %v", s.Name, err)
			}
			if found {
				cancelled++
			}
		}
		return func() error {
			var outcomes []string
			for _, f := range c.all() {
				if f.N == 3 {
					outcomes = append(outcomes, f.Outcome)
				}
			}
			// Where it waited it is found, and in addition perhaps a copy that was not given.
			if cancelled == 0 || !slices.Equal(outcomes, []string{"cancelled"}) {
				return fmt.Errorf("it was cancelled %d times, and is %q", cancelled, outcomes)
			}
			return nil
		}
	},
	"cancel the entity, all in one transaction": func(c *trial) func() error {
		n := int64(0)
		a, b := c.store("a"), c.store("b")
		for i, s := range []*stores.Store{a, b, c.store("c")} {
			err := pgsql.InTx(context.Background(), s.DB, func(tx *sqlx.Tx) error {
				m, err := s.Client.CancelEntity(context.Background(), tx, "order", target)
				n += m
				return err
			})
			if err != nil {
				c.t.Errorf("cancel in %d: %v", i, err)
			}
		}
		return func() error {
			for _, f := range c.all() {
				if f.N == 3 && f.Outcome != "cancelled" || n == 0 {
					return fmt.Errorf("%d were cancelled, and it is %+v", n, f)
				}
			}
			return nil
		}
	},
	"enqueue where the key belongs": func(c *trial) func() error {
		s, err := c.stage.set.Route(target)
		if err != nil {
			c.t.Error(err)
		}
		e, err := s.Client.Enqueue(context.Background(), jobs.OwnTx(s.DB), numbered(target, later, 8), jobs.Replace)
		if err != nil {
			c.t.Errorf("enqueue in %s: %v", s.Name, err)
		}
		return func() error {
			for _, f := range c.all() {
				if f.N == later && f.Outcome == "" && f.Slot.Equal(e.Slot) {
					return nil
				}
			}
			return errors.New("what was enqueued does not wait")
		}
	},
	"reschedule where it waits": func(c *trial) func() error {
		to, ok := time.Time{}, false
		for _, s := range c.stage.set.Candidates(target) {
			at, found, err := s.Client.Reschedule(context.Background(), jobs.OwnTx(s.DB), ofTarget, slot(7))
			if err != nil {
				c.t.Errorf("reschedule in %s: %v", s.Name, err)
			}
			if found {
				to, ok = at, true
			}
		}
		return func() error {
			for _, f := range c.all() {
				if f.N == 3 && (f.Outcome != "" || ok && !f.Slot.Equal(to)) {
					return fmt.Errorf("it was rescheduled to %s (%t), and is %+v", to, ok, f)
				}
			}
			return nil
		}
	},
	"update and pause schedules": func(c *trial) func() error {
		a := c.store("a")
		_, err := c.schedule.Update(context.Background(), a.DB, schedule.Spec{ID: "hourly", Crontab: "30 * * * *"}, schedule.AnyVersion)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			c.t.Errorf("update: %v", err)
		}
		return func() error {
			for s := range c.stage.set.All() {
				if got := get[string](c.t, s, "select coalesce(max(crontab), '') from prescient.schedule where id = 'hourly'"); err == nil && got != "" && got != "30 * * * *" {
					return fmt.Errorf("it was updated, and has %s", got)
				}
			}
			return nil
		}
	},
	"change by hand": func(c *trial) func() error {
		result, err := c.stage.dbs[0].ExecContext(context.Background(), `update prescient.future_job set payload = payload || '{"by": "hand"}' where entity_key = $1`, target)
		n := int64(0)
		if err == nil {
			n, err = result.RowsAffected()
		}
		if err != nil {
			c.t.Error(err)
		}
		return func() error {
			total := int64(0)
			for s := range c.stage.set.All() {
				total += get[int64](c.t, s, `select count(*) from prescient.future_job where payload ->> 'by' = 'hand'`)
			}
			if total != n {
				return fmt.Errorf("%d rows were changed, and %d rows have that", n, total)
			}
			return nil
		}
	},
	"change what a schedule carries": func(c *trial) func() error {
		_, err := c.schedule.Update(context.Background(), c.store("a").DB, schedule.Spec{ID: "daily", Crontab: "0 0 * * *", Payload: []byte(`"new"`)}, schedule.AnyVersion)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			c.t.Errorf("update: %v", err)
		}
		return func() error {
			total := 0
			for s := range c.stage.set.All() {
				total += get[int](c.t, s, `select count(*) from prescient.schedule where payload = '"new"'`)
			}
			if (total == 1) != (err == nil) {
				return fmt.Errorf("%d schedules have what was written: %w", total, err)
			}
			return nil
		}
	},
	"another move, which dies when it has given rows": func(c *trial) func() error {
		way := pgtest.OpenFaults(c.t, c.stage.urls[0], pgtest.Unprepared)
		set := newSet(c.t, c.stage.list([2]*sqlx.DB{way.DB, c.stage.dbs[1]})...)
		gives := func(text string) bool { return strings.Contains(text, "give_rows") }
		way.Set(pgtest.Fault{At: 2, Of: gives, Kind: pgtest.CrashAfter})
		_, _ = set.Move(context.Background(), stores.Move{From: "a"})
		return func() error { return nil }
	},
	"pause the job": func(c *trial) func() error {
		a := c.store("a")
		if _, err := admin.New(a.Client).Pause(context.Background(), a.DB, "remind"); err != nil {
			c.t.Error(err)
		}
		left := get[int](c.t, a, "select count(*) from prescient.future_job where entity_name = 'order'")
		return func() error {
			paused := 0
			for s := range c.stage.set.All() {
				if s.Name != "a" && get[bool](c.t, s, "select exists (select from prescient.job where name = 'remind' and paused_at is not null)") {
					paused += get[int](c.t, s, "select count(*) from prescient.future_job where entity_name = 'order'")
				}
			}
			if paused < left-1 { // one is replaced
				return fmt.Errorf("%d rows waited when their job was paused, and %d wait where it is", left, paused)
			}
			return nil
		}
	},
	"another move, of schedules alone": func(c *trial) func() error {
		if _, err := c.stage.set.Move(context.Background(), stores.Move{From: "a", To: []string{"c"}, Field: "nothing"}); err != nil {
			c.t.Errorf("another move: %v", err)
		}
		return func() error { return nil }
	},
	"another move": func(c *trial) func() error {
		if _, err := c.stage.set.Move(context.Background(), stores.Move{From: "a"}); err != nil {
			c.t.Errorf("another move: %v", err)
		}
		return func() error { return nil }
	},
	"another move, elsewhere": func(c *trial) func() error {
		if _, err := c.stage.set.Move(context.Background(), stores.Move{From: "a", To: []string{"c"}}); err != nil {
			c.t.Errorf("another move: %v", err)
		}
		return func() error { return nil }
	},
}

// performance is one case.
type performance struct {
	name     string
	database int
	at       int
	kind     pgtest.Kind
	who      who
}

// TestEachRowIsInOnePlaceWhateverHappensAtAnyStatementOfAMove has something go wrong, or somebody
// do something, at the round trips of a move to either database: with PRESCIENT_TEST_LONG=1 at each
// of them, else at some that are chosen at random.
func TestEachRowIsInOnePlaceWhateverHappensAtAnyStatementOfAMove(t *testing.T) {
	t.Parallel()
	free := make(chan *stage, stages)
	for range stages {
		free <- newStage(t)
	}
	stage := <-free
	c := newTrial(t, stage)
	trips := c.play(0, pgtest.Fault{})
	c.judge()
	free <- stage
	if t.Failed() {
		return
	}
	var list []performance
	for database, trips := range trips {
		for at, text := range trips {
			name := fmt.Sprintf("%s/%d %.60s", []string{"source", "target"}[database], at+1, text)
			for _, kind := range []pgtest.Kind{pgtest.CrashBefore, pgtest.CrashAfter, pgtest.Cut, pgtest.LostReply, pgtest.TornReply, pgtest.FailedCommit} {
				list = append(list, performance{string(kind) + "/" + name, database, at + 1, kind, nil})
			}
			for _, what := range slices.Sorted(maps.Keys(somebody)) {
				list = append(list, performance{what + "/" + name, database, at + 1, pgtest.SomebodyFirst, somebody[what]})
			}
		}
	}
	total := len(list)
	if os.Getenv("PRESCIENT_TEST_LONG") == "" {
		seed := uint64(time.Now().UnixNano())
		if given, err := strconv.ParseUint(os.Getenv("PRESCIENT_TEST_SEED"), 10, 64); err == nil {
			seed = given
		}
		t.Logf("PRESCIENT_TEST_SEED=%d", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:some]
		if testing.Short() {
			list = list[:some/3]
		}
	}
	t.Logf("%d and %d round trips; %d of %d cases", len(trips[0]), len(trips[1]), len(list), total)
	for _, p := range list {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			stage := <-free
			defer func() { free <- stage }()
			c := newTrial(t, stage)
			promise := func() error { return nil }
			fault := pgtest.Fault{At: p.at, Kind: p.kind, Reset: p.at%2 == 0}
			if p.who != nil {
				fault.First = func() { promise = p.who(c) }
			}
			c.play(p.database, fault)
			c.heal()
			c.judge()
			if err := promise(); err != nil {
				t.Error(err)
			}
		})
	}
}
