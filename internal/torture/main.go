package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/crond"
)

const (
	lease        = 3 * time.Second
	databaseName = "prescient"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		os.Exit(beProcess(os.Args[2], os.Args[3:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "the `number` that the faults follow from")
	flag.DurationVar(&o.most, "for", time.Minute, "how `long` faults come")
	flag.DurationVar(&o.every, "every", 225*time.Millisecond, "how `long` it is between two faults, on average")
	flag.DurationVar(&o.recovery, "recovery", usualRecovery, "how `long` rows may wait that are due when faults end")
	only := flag.String("faults", "", "the `kinds` of faults, separated by commas; empty: all but those on a small disk")
	flag.BoolVar(&o.pooled, "pooler", false, "put PgBouncer in transaction mode before the server")
	flag.BoolVar(&o.soaked, "soak", false, "no faults: take samples of memory, connections and tables, in soak.csv")
	flag.IntVar(&o.moved, "moves", 0, "no other faults: kill so `many` processes that move rows between two stores")
	flag.BoolVar(&o.cronned, "cron", false, "no faults: a real cron starts the runs of slots of a minute")
	flag.StringVar(&o.keep, "dir", "", "the `directory` for servers and ledgers, which stays; empty: a temporary one")
	flag.BoolVar(&o.verbose, "v", false, "print each fault")
	flag.Parse()
	if *only != "" {
		o.kinds = strings.Split(*only, ",")
	}
	broken, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	case broken > 0:
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	seed        uint64
	most, every time.Duration
	recovery    time.Duration
	kinds       []string // empty: all that need nothing special
	pooled      bool
	soaked      bool
	sampled     time.Duration // how long it is between two samples; 0: 30 s
	moved       int           // moves that are killed; 0: there is one store
	hasty       bool          // rows that wait at the end are cancelled
	cronned     bool
	keep        string
	verbose     bool
}

// torture is one run.
type torture struct {
	options
	dir     string
	cluster *cluster
	clock   *clock  // nil: the servers have that of the machine
	pooler  *pooler // nil: none
	plain   *proxy  // never has a fault
	admin   *sqlx.DB
	places  []*place
	client  *proxy // of a part of the mutator
	mover   *proxy // of moves
	config  string // the file of settings; empty: none
	// destinations are the webhook and the receiver; none for moves, a soak and cron.
	destinations []*destination
	cron         *crond.Cron
	began        time.Time // when cron did
	log          *slog.Logger

	mu     sync.Mutex
	counts map[string]int
	halts  []halt
	found  []string // broken invariants of the time before the end

	calm   time.Time // when the last faults ended
	paused time.Time // when the schedules were
}

// halt is when a process was killed, or stood still.
type halt struct {
	pid      int
	from, to time.Time // to is zero for a kill
}

func (t *torture) count(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what] += n
}

// broken notes an invariant that does not hold.
func (t *torture) broken(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = append(t.found, fmt.Sprintf(format, args...))
}

func run(ctx context.Context, o options) (broken int, err error) {
	fmt.Printf("seed %d\n", o.seed)
	for _, kind := range o.kinds {
		if !slices.ContainsFunc(kinds, func(k kindOfFault) bool { return k.name == kind }) {
			return 0, fmt.Errorf("there is no fault %q", kind)
		}
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "prescient-torture-"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	// The server's user has to get through.
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return 0, err
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	t := &torture{options: o, dir: dir, counts: map[string]int{}, log: log}
	defer func() { err = errors.Join(err, t.end()) }()
	if err := t.begin(ctx); err != nil {
		return 0, err
	}

	random := rand.New(rand.NewPCG(o.seed, o.seed))
	m, err := t.mutator(rand.New(rand.NewPCG(o.seed, 1))) // of its own: faults do not depend on what workers draw
	if err != nil {
		return 0, err
	}
	if o.moved > 0 {
		o.most = time.Hour // moves end by themselves
	}
	faulty, stop := context.WithTimeout(ctx, o.most)
	defer stop()
	var work sync.WaitGroup
	pace := 200 * time.Millisecond
	if o.soaked {
		pace *= 2
	}
	works, workers := m.work, 4
	if o.moved > 0 {
		works, workers, pace = m.inStores, 12, pace/4
	}
	for worker := range workers {
		work.Go(func() { works(faulty, worker+1, pace) })
	}
	for _, p := range t.places {
		go t.keepUp(ctx, p)
	}
	switch {
	case o.soaked:
		err = t.soak(ctx, o.most)
	case o.moved > 0:
		err = t.moves(faulty, random)
	case o.cronned:
		err = t.byCron(faulty)
	default:
		t.strikes(faulty, schedule(random, o.most, o.every, o.kinds))
	}
	stop()
	work.Wait()
	m.later.Wait()
	if err == nil && o.hasty {
		err = t.cancelAll(ctx, m)
	}
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, errors.New("interrupted")
	}
	if err := t.heal(ctx); err != nil {
		return 0, err
	}
	return t.report(ctx, m)
}

// begin starts the server, and makes the schema and the places of the processes.
func (t *torture) begin(ctx context.Context) (err error) {
	if slices.Contains(t.kinds, stepTheClock) {
		if t.clock, err = newClock(ctx, t.dir); err != nil {
			return err
		}
	}
	if t.cluster, err = newCluster(ctx, t.dir, slices.Contains(t.kinds, fillTheDisk)); err != nil {
		return err
	}
	if t.plain, err = newProxy(ctx, t.cluster.socket()); err != nil {
		return err
	}
	if t.admin, err = sqlx.Open("postgres", t.plain.url("postgres", "torture")); err != nil {
		return err
	}
	if err := t.makeStores(ctx); err != nil {
		return err
	}
	_, err = t.admin.ExecContext(ctx, `
		create schema torture;
		create table torture.effect (
			id bigint not null, check_count integer not null, pid integer not null, slot timestamptz not null,
			key text not null, at timestamptz not null default clock_timestamp()
		);
		create table torture.orders (id bigint primary key, placed_at timestamptz not null, paid_at timestamptz);
		grant all on schema torture to prescient;
		grant all on all tables in schema torture to prescient;
		alter table torture.orders owner to prescient`)
	if err != nil {
		return err
	}
	if t.moved == 0 && !t.soaked && !t.cronned {
		if err := t.startDestinations(ctx); err != nil {
			return err
		}
	}
	if t.moved == 0 {
		if err := t.planned(ctx); err != nil {
			return err
		}
	}
	socket := t.cluster.socket()
	if t.pooled {
		if t.pooler, err = newPooler(t.dir, socket); err != nil {
			return err
		}
		socket = t.pooler.socket()
	}
	if t.client, err = newProxy(ctx, socket); err != nil {
		return err
	}
	if err := awaitServer(ctx, t.client.url("prescient", "torture")); err != nil {
		return err
	}
	places := []*place{
		{name: "run a", kind: "a", args: []string{"run"}},
		{name: "run b", kind: "b", args: []string{"run", "--catch-up"}},
		{name: "run a too", kind: "a", args: []string{"run", "--catch-up"}},
		{name: "daemon b", kind: "b", args: []string{"daemon"}},
		{name: "catch-up a", kind: "a", args: []string{"catch-up"}},
	}
	if t.moved > 0 {
		places = []*place{
			{name: "run a", kind: "a", args: []string{"run", "--catch-up"}, every: t.width()},
			{name: "daemon b", kind: "b", args: []string{"daemon"}},
		}
		if t.mover, err = newProxy(ctx, socket); err != nil {
			return err
		}
	}
	if t.cronned {
		places = nil
		if err := t.startCron(ctx); err != nil {
			return err
		}
		t.began = time.Now()
	}
	if t.soaked {
		if places, err = t.soakPlaces(ctx); err != nil {
			return err
		}
	}
	for _, p := range places {
		if p.proxy, err = newProxy(ctx, socket); err != nil {
			return err
		}
		p.torture, p.faults = t, make(chan fault, 1000)
		t.places = append(t.places, p)
	}
	return nil
}

// planned makes the rule and the schedules.
func (t *torture) planned(ctx context.Context) error {
	rule := filepath.Join(t.dir, "rules.yaml")
	if err := os.WriteFile(rule, []byte(rules), 0o600); err != nil {
		return err
	}
	if err := t.prescient(ctx, "rules", "apply", "--file", rule); err != nil {
		return err
	}
	for id, every := range schedules {
		if err := t.prescient(ctx, "schedules", "create", id, "--crontab", "@every "+every.String()); err != nil {
			return err
		}
	}
	return nil
}

const rules = `rules:
  - name: order.unpaid
    table: torture.orders
    key: id
    since: placed_at
    done: paid_at
    payload: [placed_at]
    steps:
      - after: 2s
        event: first
        notify: ops
        text: "{{.step}} of order {{.key}}, which was placed at {{.payload.placed_at}}"
      - after: 5s
        event: second
        notify: ops
        text: "{{.step}} of order {{.key}}, which was placed at {{.payload.placed_at}}"
`

// schedules are published beside everything else, at these distances. The events of the first come faster than refused
// ones are sent again.
var schedules = map[string]time.Duration{"dense": time.Second, "often": 3 * time.Second, "seldom": 20 * time.Second}

// awaitServer waits until a connection works.
func awaitServer(ctx context.Context, url string) error {
	for range 100 {
		if says(ctx, url, "select true") {
			return nil
		}
		wait(ctx, 50*time.Millisecond)
	}
	return errors.New("the server does not answer through its proxy")
}

// prescient runs a command beside the proxies.
func (t *torture) prescient(ctx context.Context, args ...string) error {
	_, err := t.output(ctx, args...)
	return err
}

// output runs a command, and returns what it prints.
func (t *torture) output(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, os.Args[0], append([]string{"as", "a"}, args...)...)
	c.Env, c.SysProcAttr = t.environment(t.plain.url("prescient", "prescient")), attributes()
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("prescient %s: %w\n%s%s", strings.Join(args, " "), err, &out, &log)
	}
	return out.String(), nil
}

func (t *torture) starts() string { return filepath.Join(t.dir, "starts") }
func (t *torture) leaks() string  { return filepath.Join(t.dir, "leaks") }

func (t *torture) mutator(random *rand.Rand) (*mutator, error) {
	direct, err := sqlx.Open("postgres", t.plain.url("prescient", "mutator"))
	if err != nil {
		return nil, err
	}
	proxied, err := sqlx.Open("postgres", t.client.url("prescient", "mutator"))
	if err != nil {
		return nil, err
	}
	// Within a minute both steps of the rule pass, and then one of them fires.
	return &mutator{direct: direct, proxied: proxied, random: random, ruled: !t.cronned}, nil
}

// calmEvery is how often the faults stop, for a recovery to be measured.
const calmEvery = time.Minute

// strikes does the faults, those of one place one after the other.
func (t *torture) strikes(ctx context.Context, faults []fault) {
	var all, pending sync.WaitGroup
	var calm atomic.Bool
	for _, p := range t.places {
		all.Go(func() {
			for f := range p.faults {
				if ctx.Err() == nil && !calm.Load() {
					if what := t.do(ctx, f); what != "" {
						t.count(f.kind, 1)
						t.log.InfoContext(ctx, f.kind, "on", p.name, "did", what)
					}
				}
				pending.Done()
			}
		})
	}
	last := time.Now()
	for _, f := range faults {
		wait(ctx, f.after)
		if ctx.Err() != nil {
			break
		}
		if time.Since(last) > calmEvery {
			calm.Store(true)
			pending.Wait()
			t.recovers(ctx)
			calm.Store(false)
			last = time.Now()
		}
		pending.Add(1)
		select {
		case t.places[f.target%len(t.places)].faults <- f:
		default:
			pending.Done()
		}
	}
	for _, p := range t.places {
		close(p.faults)
	}
	all.Wait()
}

// healProxies lets everything pass again.
func (t *torture) healProxies() {
	t.client.heal()
	for _, p := range t.places {
		p.proxy.heal()
		p.proceed()
	}
}

// heal lets everything pass again, and waits until nothing is due.
func (t *torture) heal(ctx context.Context) error {
	t.calm = time.Now()
	t.recovers(ctx)
	began := time.Now()
	deadline := began.Add(5 * time.Minute)
	if t.clock != nil { // what was asked for while the clock was ahead is due only now, and the slots up to it are missed
		if err := t.clock.shift(time.Hour + time.Minute); err != nil {
			return err
		}
		deadline = began.Add(15 * time.Minute)
	}
	if t.cronned {
		deadline = began.Add(30 * t.width())
	}
	for {
		left, err := eachStore[int](ctx, t, `
			select (select count(*) from prescient.future_job where entity_name <> 'schedule')
				+ (select count(*) from prescient.slot_run where state = 'open')`)
		if err == nil && slices.Max(left) == 0 {
			t.log.WarnContext(ctx, "healed", "after", time.Since(began).Round(time.Millisecond).String())
			break
		}
		if time.Now().After(deadline) {
			t.log.ErrorContext(ctx, "not healed", "rows and open slots", left, "error", err)
			break
		}
		if wait(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	for _, p := range t.places {
		p.finish()
	}
	if t.pooler != nil {
		t.pooler.stop()
	}
	if t.cron != nil {
		t.cron.Stop()
	}
	t.paused = time.Now()
	if t.moved == 0 {
		for id := range schedules {
			if err := t.prescient(ctx, "schedules", "pause", id); err != nil {
				return err
			}
		}
	}
	// It fails if it leaves a check behind that ignores its context. The next one checks the row again.
	for tries := 1; ; tries++ {
		err := t.prescient(ctx, "catch-up")
		if err == nil {
			break
		}
		if tries == 10 {
			return err
		}
	}
	if err := t.forwardAll(ctx); err != nil {
		return err
	}
	// The server notices a moment later that a process has gone.
	for range 50 {
		var sessions int
		err := t.admin.GetContext(ctx, &sessions,
			"select count(*) from pg_stat_activity where application_name like 'prescient%'")
		if err != nil || sessions == 0 {
			return err
		}
		wait(ctx, 100*time.Millisecond)
	}
	return nil
}

func (t *torture) end() (err error) {
	for _, p := range t.places {
		p.finish()
	}
	if t.pooler != nil {
		t.pooler.stop()
	}
	if t.cron != nil {
		t.cron.Stop()
	}
	t.stopDestinations()
	if t.admin != nil {
		err = t.admin.Close()
	}
	if t.cluster != nil {
		err = errors.Join(err, t.cluster.stop())
	}
	return err
}

// report checks the invariants and prints what was done.
func (t *torture) report(ctx context.Context, m *mutator) (broken int, err error) {
	_ = m.direct.Close()
	_ = m.proxied.Close()
	check := t.check
	if t.moved > 0 {
		check = t.checkMoves
	}
	if err := check(ctx, m); err != nil {
		return 0, err
	}
	fmt.Println("\n| fault or work | count |\n| --- | ---: |")
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Printf("| %s | %d |\n", name, t.counts[name])
	}
	fmt.Printf("\n%d violations\n", len(t.found))
	for i, v := range t.found {
		if i == 50 {
			fmt.Println("...")
			break
		}
		fmt.Println("-", v)
	}
	return len(t.found), nil
}
