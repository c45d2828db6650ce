package stores_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// play is a random history: in each slot applications enqueue and cancel, each store runs the slot,
// and rows are moved out of stores by movers of which some are killed.
type play struct {
	*world
	clock *replay.Clock
	seed  uint64

	mu     sync.Mutex
	asked  map[string]int // how many checks a key is to have, of those that were enqueued
	ended  map[string]int // and how many effects it had when a cancel had found it
	killed int
	moved  stores.Moved
}

// checks is how many checks a key is to have.
func checks(n int) int { return 1 + n%mostChecks }

func newPlay(t *testing.T, seed uint64) *play {
	t.Helper()
	p := &play{world: setup(t), clock: replay.NewClock(now), seed: seed, asked: map[string]int{}, ended: map[string]int{}}
	var list []stores.Store
	for s := range p.set.All() {
		list = append(list, stores.Store{Name: s.Name, DB: s.DB, Schema: s.Schema})
		exec(t, s, `create table prescient.effect (key text, checks integer)`)
		exec(t, s, `update prescient.setting set since = $1`, slot(1))
	}
	var err error
	if p.set, err = stores.New(t.Context(), list, jobs.Config{Now: p.clock.Now}); err != nil {
		t.Fatal(err)
	}
	return p
}

// runner returns one of a store, with the jobs of this test.
func (p *play) runner(s *stores.Store) *slots.Runner {
	p.t.Helper()
	registry := jobs.NewRegistry()
	effect := pg.NewStatement("insert into prescient.effect (key, checks) values ($1, $2)").In(pgsql.Schema(s.Schema))
	registry.Register("remind", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if _, err := tx.ExecContext(ctx, effect, job.EntityKey, job.CheckCount); err != nil {
			return nil, err
		}
		var n int
		_, err := fmt.Sscan(job.EntityKey, &n)
		if job.CheckCount+1 == checks(n) {
			return nil, err
		}
		return new(grid.Default.Add(job.Slot, 3)), err
	}))
	schedule.Register(registry, &schedule.PublishConfig{Publisher: outbox.New(s.DB, pgsql.Schema(s.Schema)), Schema: pgsql.Schema(s.Schema)})
	runner, err := slots.NewRunner(p.t.Context(), slots.Config{
		DB: s.DB, Schema: s.Schema, Registry: registry, Workers: 4, Connections: 4, Now: p.clock.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return runner
}

// effects is how many checks of a key there were.
func (p *play) effects(key string) (n int) {
	for s := range p.set.All() {
		n += get[int](p.t, s, `select count(*) from prescient.effect where key = $1`, key)
	}
	return n
}

// apply enqueues keys and cancels some of them a while later, as an application does.
func (p *play) apply(random *rand.Rand, step, first, n int) {
	for i := first; i < first+n; i++ {
		key := fmt.Sprint(i)
		store, err := p.set.Route(key)
		if err == nil {
			_, err = store.Client.Enqueue(p.t.Context(), jobs.OwnTx(store.DB), check(key, slot(step+1+random.IntN(6))))
		}
		if err != nil {
			p.t.Errorf("enqueue %s: %v", key, err)
		}
		p.mu.Lock()
		p.asked[key] = checks(i)
		p.mu.Unlock()
		if i := random.IntN(i + 1); i%3 == 0 {
			p.cancel(fmt.Sprint(i))
		}
	}
}

func (p *play) cancel(key string) {
	found := false
	for _, s := range p.set.Candidates(key) {
		in, err := s.Client.Cancel(p.t.Context(), jobs.OwnTx(s.DB), check(key, now).Key())
		if err != nil {
			p.t.Errorf("cancel %s: %v", key, err)
		}
		found = found || in
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, before := p.ended[key]; found && !before {
		p.ended[key] = p.effects(key)
	}
}

// move moves rows out of a store, again and again, and is killed in the middle of some.
func (p *play) move(random *rand.Rand, from string, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		ctx, kill := context.WithCancel(p.t.Context())
		if random.IntN(2) == 0 {
			time.AfterFunc(time.Duration(random.IntN(40))*time.Millisecond, kill)
		}
		moved, err := p.set.Move(ctx, stores.Move{From: from})
		if err != nil && ctx.Err() == nil && !pg.HasState(err, "PS003") {
			p.t.Errorf("move from %s: %v", from, err)
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			p.killed++
		}
		p.moved.Rows += moved.Rows
		p.moved.Schedules += moved.Schedules
		p.moved.Finished += moved.Finished
		p.mu.Unlock()
		kill()
	}
}

func TestNothingIsLostAndNothingIsRunTwiceWhateverIsMovedMeanwhile(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := newPlay(t, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const keys, apps = 40, 3
	steps := 12
	if testing.Short() {
		steps = 4
	}
	names := []string{"a", "b", "c"}
	runners := map[string]*slots.Runner{}
	for _, name := range names {
		runners[name] = p.runner(p.store(name))
	}
	p.createSchedules(20)
	for step := 1; step <= steps; step++ {
		from := names[random.IntN(len(names))]
		p.clock.Set(slot(step).Add(2 * time.Minute))
		if _, err := p.set.Drain(t.Context(), from, "me"); err != nil { // which every application knows before anything moves
			t.Fatal(err)
		}
		done := make(chan struct{})
		var working, moving sync.WaitGroup
		for app := range apps {
			random := rand.New(rand.NewPCG(seed, uint64(100*step+app)))
			working.Go(func() { p.apply(random, step, (step*apps+app)*keys, keys) })
		}
		for _, name := range names {
			working.Go(func() {
				if _, err := runners[name].Run(t.Context(), slot(step)); err != nil {
					t.Errorf("run of %s: %v", name, err)
				}
			})
		}
		for mover := range 2 {
			random := rand.New(rand.NewPCG(seed, uint64(100*step+50+mover)))
			moving.Go(func() { p.move(random, from, done) })
		}
		working.Wait()
		close(done)
		moving.Wait()
		p.settled(runners, from)
	}
	for step := steps + 1; step <= steps+12; step++ {
		p.clock.Set(slot(step).Add(2 * time.Minute))
		for _, name := range names {
			if _, err := runners[name].Run(t.Context(), slot(step)); err != nil {
				t.Errorf("run of %s: %v", name, err)
			}
		}
	}
	p.judge(slot(steps + 12))
	t.Logf("%d rows and %d schedules were moved, %d rows by who came after %d that were killed; %d of %d keys were cancelled",
		p.moved.Rows, p.moved.Schedules, p.moved.Finished, p.killed, len(p.ended), len(p.asked))
}

// settled ends what movers have left, and catches up.
func (p *play) settled(runners map[string]*slots.Runner, from string) {
	p.t.Helper()
	for s := range p.set.All() {
		if _, err := p.set.Move(p.t.Context(), stores.Move{From: s.Name}); err != nil && s.Name == from {
			p.t.Errorf("the last move from %s: %v", from, err)
		}
	}
	if _, err := p.set.Undrain(p.t.Context(), from, "me"); err != nil {
		p.t.Error(err)
	}
	for name, r := range runners {
		if _, err := r.CatchUp(p.t.Context(), slots.CatchUp{}); err != nil {
			p.t.Errorf("catch-up of %s: %v", name, err)
		}
	}
}

// createSchedules makes schedules of which each has an instant in each slot, and some a window in
// which it is put off.
func (p *play) createSchedules(n int) {
	p.t.Helper()
	a := p.store("a")
	store, err := schedule.NewStore(p.t.Context(), a.DB, schedule.Config{Now: p.clock.Now})
	for i := range n {
		if err == nil {
			_, err = store.Create(p.t.Context(), a.DB, schedule.Spec{ID: fmt.Sprint("s", i), Crontab: "*/5 * * * *", Spread: time.Duration(i%3) * 7 * time.Minute})
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) judge(end time.Time) {
	p.t.Helper()
	seen := map[string]int{}
	events := map[string]int{}
	for s := range p.set.All() {
		p.read(s, `select key || '/' || checks from prescient.effect`, seen)
		p.read(s, `select id from prescient.event_outbox`, events)
		if left := get[int](p.t, s, `select (select count(*) from prescient.future_job where entity_name = 'order') + (select count(*) from prescient.transfer_in)
			+ (select count(*) from prescient.transfer_out)`); left > 0 {
			p.t.Errorf("%d rows are left in %s", left, s.Name)
		}
	}
	for key, n := range p.asked {
		got := 0
		for i := range mostChecks {
			switch seen[fmt.Sprint(key, "/", i)] {
			case 0:
			case 1:
				got++
			default:
				p.t.Errorf("check %d of key %s was done twice", i, key)
			}
		}
		if at, cancelled := p.ended[key]; cancelled {
			n = at
		}
		if got != n {
			_, cancelled := p.ended[key]
			p.t.Errorf("key %s was checked %d times, want %d (cancelled: %t)", key, got, n, cancelled)
		}
	}
	for i := range 20 {
		last := end.Add(-time.Duration(i%3) * 7 * time.Minute)
		for at := now.Truncate(5 * time.Minute).Add(5 * time.Minute); !at.After(last); at = at.Add(5 * time.Minute) {
			id := fmt.Sprintf("s%d-%d", i, at.Unix())
			if events[id] != 1 {
				p.t.Errorf("instant %s of schedule %d was published %d times", at.Format(time.TimeOnly), i, events[id])
			}
			delete(events, id)
		}
	}
	for id, n := range events {
		if n > 1 {
			p.t.Errorf("event %s was published %d times", id, n)
		}
	}
}

// mostChecks is how many checks a key has at the most.
const mostChecks = 2

// read counts texts.
func (p *play) read(s *stores.Store, query string, into map[string]int) {
	p.t.Helper()
	var texts []string
	if err := pg.Sqlx(s.DB).SelectContext(p.t.Context(), &texts, pg.NewStatement(query).In(pgsql.Schema(s.Schema))); err != nil {
		p.t.Fatal(err)
	}
	for _, text := range texts {
		into[text]++
	}
}
