package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/prescient-go/prescient/sql/embedded"
)

const (
	lease        = 3 * time.Second
	width        = 2 * time.Second
	databaseName = "prescient"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		os.Exit(beProcess(os.Args[2], os.Args[3:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the `number` that the faults follow from")
	most := flag.Duration("for", time.Minute, "how `long` faults come")
	only := flag.String("faults", "", "the `kinds` of faults, separated by commas; empty: all")
	keep := flag.String("dir", "", "the `directory` for the server and the ledgers, which stays; empty: a temporary one")
	verbose := flag.Bool("v", false, "print each fault")
	flag.Parse()
	broken, err := run(ctx, *seed, *most, *only, *keep, *verbose)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	case broken > 0:
		os.Exit(1)
	}
}

// torture is one run.
type torture struct {
	dir    string
	server *embedded.Server
	admin  *sqlx.DB // of a superuser, past the proxies
	places []*place
	client *proxy // of a part of the mutator
	log    *slog.Logger

	restarting sync.Mutex

	mu     sync.Mutex
	counts map[string]int
	halts  []halt
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

func run(
	ctx context.Context, seed uint64, most time.Duration, only, keep string, verbose bool,
) (broken int, err error) {
	fmt.Printf("seed %d\n", seed)
	dir := keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "prescient-torture-"); err != nil {
			return 0, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user has to get through
		return 0, err
	}
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	t := &torture{dir: dir, counts: map[string]int{}, log: log}
	if err := t.begin(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.end()) }()

	random := rand.New(rand.NewPCG(seed, seed))
	var kinds []string
	if only != "" {
		kinds = strings.Split(only, ",")
	}
	m, err := t.mutator(random)
	if err != nil {
		return 0, err
	}
	faulty, stop := context.WithTimeout(ctx, most)
	defer stop()
	var work sync.WaitGroup
	for worker := range 4 {
		work.Go(func() { m.work(faulty, worker+1, 60*time.Millisecond) })
	}
	for _, p := range t.places {
		go t.keepUp(ctx, p)
	}
	t.strikes(faulty, schedule(random, most, kinds))
	work.Wait()
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
	t.server, err = embedded.Open(embedded.Config{
		Dir: filepath.Join(t.dir, "pg"), Settings: map[string]string{"max_connections": "200"},
	})
	if err != nil {
		return err
	}
	if err := t.server.Start(ctx); err != nil {
		return err
	}
	if t.admin, err = sqlx.Open("postgres", t.server.SuperuserURL()+"&application_name=torture"); err != nil {
		return err
	}
	for _, command := range [][]string{{"migrate", "up"}, {"slots", "set-width", width.String()}} {
		if err := t.prescient(ctx, command...); err != nil {
			return err
		}
	}
	_, err = t.admin.ExecContext(ctx, `
		create schema torture;
		create table torture.effect (id bigint not null, check_count integer not null);
		create table torture.orders (id bigint primary key, placed_at timestamptz not null, paid_at timestamptz);
		grant all on schema torture to prescient;
		grant all on all tables in schema torture to prescient;
		alter table torture.orders owner to prescient`)
	if err != nil {
		return err
	}
	rule := filepath.Join(t.dir, "rules.yaml")
	if err := os.WriteFile(rule, []byte(rules), 0o600); err != nil {
		return err
	}
	if err := t.prescient(ctx, "rules", "apply", "--file", rule); err != nil {
		return err
	}
	socket := filepath.Join(t.socket(ctx), ".s.PGSQL.5432")
	if t.client, err = newProxy(ctx, socket); err != nil {
		return err
	}
	for _, p := range []*place{
		{name: "run a", kind: "a", args: []string{"run"}},
		{name: "run b", kind: "b", args: []string{"run", "--catch-up"}},
		{name: "run a too", kind: "a", args: []string{"run", "--catch-up"}},
		{name: "daemon b", kind: "b", args: []string{"daemon"}},
		{name: "catch-up a", kind: "a", args: []string{"catch-up"}},
	} {
		if p.proxy, err = newProxy(ctx, socket); err != nil {
			return err
		}
		p.torture, p.faults = t, make(chan fault, 1000)
		t.places = append(t.places, p)
	}
	return nil
}

const rules = `rules:
  - name: order.unpaid
    table: torture.orders
    key: id
    since: placed_at
    done: paid_at
    steps:
      - after: 2s
        event: first
      - after: 5s
        event: second
`

func (t *torture) socket(ctx context.Context) string {
	status, err := t.server.Status(ctx)
	if err != nil {
		return ""
	}
	return status.Socket
}

// prescient runs a command beside the proxies.
func (t *torture) prescient(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, os.Args[0], append([]string{"as", "a"}, args...)...)
	c.Env, c.SysProcAttr = environment(t.server.URL(), t.starts()), attributes()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("prescient %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (t *torture) starts() string { return filepath.Join(t.dir, "starts") }

func (t *torture) mutator(random *rand.Rand) (*mutator, error) {
	direct, err := sqlx.Open("postgres", t.server.URL()+"&application_name=mutator")
	if err != nil {
		return nil, err
	}
	proxied, err := sqlx.Open("postgres", t.client.url("mutator"))
	if err != nil {
		return nil, err
	}
	return &mutator{direct: direct, proxied: proxied, random: random}, nil
}

// strikes does the faults, those of one place one after the other.
func (t *torture) strikes(ctx context.Context, faults []fault) {
	var all sync.WaitGroup
	for _, p := range t.places {
		all.Go(func() {
			for f := range p.faults {
				if ctx.Err() != nil {
					continue
				}
				if what := t.do(ctx, f); what != "" {
					t.count(f.kind, 1)
					t.log.InfoContext(ctx, f.kind, "on", p.name, "did", what)
				}
			}
		})
	}
	for _, f := range faults {
		wait(ctx, f.after)
		if ctx.Err() != nil {
			break
		}
		select {
		case t.places[f.target%len(t.places)].faults <- f:
		default:
		}
	}
	for _, p := range t.places {
		close(p.faults)
	}
	all.Wait()
}

// heal lets everything pass again, and waits until nothing is due.
func (t *torture) heal(ctx context.Context) error {
	t.client.heal()
	for _, p := range t.places {
		p.proxy.heal()
		p.proceed()
	}
	began := time.Now()
	deadline := began.Add(90 * time.Second)
	for {
		var left struct{ Rows, Open int }
		err := t.admin.GetContext(ctx, &left, `
			select (select count(*) from prescient.future_job) as rows,
				(select count(*) from prescient.slot_run where state = 'open') as open`)
		if err == nil && left.Rows == 0 && left.Open == 0 {
			t.log.WarnContext(ctx, "healed", "after", time.Since(began).Round(time.Millisecond).String())
			break
		}
		if time.Now().After(deadline) {
			t.log.ErrorContext(ctx, "not healed", "rows", left.Rows, "open", left.Open, "error", err)
			break
		}
		wait(ctx, 200*time.Millisecond)
	}
	for _, p := range t.places {
		p.finish()
	}
	if err := t.prescient(ctx, "catch-up"); err != nil {
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

func (t *torture) end() error {
	for _, p := range t.places {
		p.finish()
	}
	if t.admin != nil {
		_ = t.admin.Close()
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return t.server.Stop(ctx)
}

// place is where one process after another runs the same command.
type place struct {
	name, kind string
	args       []string
	torture    *torture
	proxy      *proxy
	faults     chan fault

	mu      sync.Mutex
	process *os.Process // nil: none
	stopped time.Time   // zero: it goes on
	over    bool
	idle    chan struct{}
}

// keepUp starts the command again and again.
func (t *torture) keepUp(ctx context.Context, p *place) {
	for {
		path := filepath.Join(t.dir, strings.ReplaceAll(p.name, " ", "-")+".log")
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.log.ErrorContext(ctx, err.Error())
			return
		}
		c := exec.Command(os.Args[0], append([]string{"as", p.kind}, p.args...)...) //nolint:noctx // killed by finish
		c.Env, c.SysProcAttr = environment(p.proxy.url("prescient"), t.starts()), attributes()
		c.Stdout, c.Stderr = log, log
		p.mu.Lock()
		if p.over || ctx.Err() != nil {
			p.mu.Unlock()
			_ = log.Close()
			return
		}
		if err := c.Start(); err != nil {
			p.mu.Unlock()
			t.log.ErrorContext(ctx, err.Error())
			return
		}
		p.process, p.idle = c.Process, make(chan struct{})
		p.mu.Unlock()
		t.count("processes", 1)
		_ = c.Wait()
		_ = log.Close()
		p.mu.Lock()
		p.process = nil
		close(p.idle)
		p.mu.Unlock()
		wait(ctx, 100*time.Millisecond)
	}
}

func (p *place) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || !p.stopped.IsZero() || p.process.Kill() != nil {
		return false
	}
	p.torture.halted(halt{pid: p.process.Pid, from: time.Now()})
	return true
}

func (t *torture) halted(h halt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halts = append(t.halts, h)
}

// stop lets the process stand still, as a machine that sleeps does.
func (p *place) stop(ctx context.Context, most time.Duration) bool {
	p.mu.Lock()
	if p.process == nil || p.process.Signal(syscall.SIGSTOP) != nil {
		p.mu.Unlock()
		return false
	}
	p.stopped = time.Now()
	p.mu.Unlock()
	wait(ctx, most)
	p.proceed()
	return true
}

func (p *place) proceed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.stopped.IsZero() {
		return
	}
	p.torture.halted(halt{p.process.Pid, p.stopped, time.Now()})
	p.stopped = time.Time{}
	_ = p.process.Signal(syscall.SIGCONT)
}

// finish ends the process in good order, and starts no other one.
func (p *place) finish() {
	p.mu.Lock()
	p.over = true
	process, idle := p.process, p.idle
	p.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-idle:
	case <-time.After(20 * time.Second):
		p.torture.log.Error("the process does not end", "place", p.name)
		_ = process.Kill()
		<-idle
	}
}

// report checks the invariants and prints what was done.
func (t *torture) report(ctx context.Context, m *mutator) (broken int, err error) {
	_ = m.direct.Close()
	_ = m.proxied.Close()
	found, err := t.check(ctx, m)
	if err != nil {
		return 0, err
	}
	fmt.Println("\n| fault or work | count |\n| --- | ---: |")
	var names []string
	for name := range t.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("| %s | %d |\n", name, t.counts[name])
	}
	fmt.Printf("\n%d violations\n", len(found))
	for i, v := range found {
		if i == 50 {
			fmt.Println("...")
			break
		}
		fmt.Println("-", v)
	}
	return len(found), nil
}
