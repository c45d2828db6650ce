package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
)

// The jobs. Both kinds of process know the first four of them.
const (
	plainJob   = "plain"
	txJob      = "tx"
	limitedJob = "limited"
	pacedJob   = "paced"
	onlyA      = "only.a"
	onlyB      = "only.b"
	groupedJob = "grouped"
)

const (
	atMost    = 2
	perSecond = 20

	callTimeout = time.Second
	grace       = time.Second
)

// The variables that name the ledger of starts, and the file of goroutines that were left.
const (
	startsFile = "TORTURE_STARTS"
	leaksFile  = "TORTURE_LEAKS"
)

// staysUp is the variable that says that no check ignores its context. A daemon with one that does ends by itself.
const staysUp = "TORTURE_STAYS_UP"

// beProcess is a process of prescient of one kind, a or b.
func beProcess(kind string, args []string) int {
	starts, err := os.OpenFile(os.Getenv(startsFile), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	l := &startLedger{file: starts}
	registry := jobs.NewRegistry()
	options := []jobs.Option{jobs.Timeout(callTimeout), jobs.Retry(4), jobs.MaxChecks(6), jobs.MaxBackOff(2)}
	registry.Register(plainJob, jobs.Row(l.plain), options...)
	registry.Register(txJob, jobs.InTx(l.tx), options...)
	registry.Register(limitedJob, jobs.Row(l.plain), append(options, jobs.AtMost(atMost))...)
	registry.Register(pacedJob, jobs.Row(l.plain), append(options, jobs.PerSecond(perSecond))...)
	registry.Register(groupedJob, jobs.Group("groups", l.grouped), options...)
	registry.Register(map[string]string{"a": onlyA, "b": onlyB}[kind], jobs.Row(l.plain), options...)
	os.Args = append([]string{"prescient"}, args...)
	code := int(cmd.Run(registry))
	if err := l.leaks(os.Getenv(leaksFile)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return code
}

// startLedger is the file of what was started and ended. A line is shorter than the size up to which the system
// appends in one piece.
type startLedger struct {
	calls atomic.Int64 // that have not returned

	mu   sync.Mutex
	file *os.File
}

func (l *startLedger) write(what string, job jobs.FutureJob) error {
	line := fmt.Sprintf("%s %d %s %s %d %d %d %d\n",
		what, job.ID, job.JobExec, job.EntityKey, job.CheckCount, job.NextCheckAt.UnixNano(), time.Now().UnixNano(),
		os.Getpid())
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.WriteString(line); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *startLedger) plain(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	if err := l.write("start", job); err != nil {
		return nil, err
	}
	defer func() { _ = l.write("end", job) }()
	return fate(ctx, job)
}

func (l *startLedger) tx(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	if err := l.write("start", job); err != nil {
		return nil, err
	}
	defer func() { _ = l.write("end", job) }()
	if err := affect(ctx, tx, job); err != nil {
		return nil, err
	}
	return fate(ctx, job)
}

// grouped checks the rows of a group, which end.
func (l *startLedger) grouped(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	for _, job := range rows {
		if err := l.write("start", job); err != nil {
			return nil, err
		}
		defer func() { _ = l.write("end", job) }()
		if err := affect(ctx, tx, job); err != nil {
			return nil, err
		}
	}
	return make([]jobs.Result, len(rows)), nil
}

// affect has an effect in the transaction of a check.
func affect(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) error {
	const effect = "insert into torture.effect (id, check_count, pid, slot, key) values ($1, $2, $3, $4, $5)"
	_, err := tx.ExecContext(ctx, effect, job.ID, job.CheckCount, os.Getpid(), job.NextCheckAt, job.EntityKey)
	return err
}

// fate decides how a check ends. It depends on the row alone, so a repeated check ends in the same way.
func fate(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
	sum := fnv.New32a()
	fmt.Fprint(sum, job.EntityKey, job.CheckCount, job.ErrorCount)
	switch luck := sum.Sum32() % 100; {
	case luck < 50:
		return nil, nil //nolint:nilnil // the end of the row
	case luck < 72:
		next := time.Now().Add(time.Duration(luck-50) * 200 * time.Millisecond)
		return &next, nil
	case luck < 78 && job.ErrorCount < 2:
		return nil, errors.New("it does not work yet")
	case luck < 81 && job.ErrorCount < 2:
		panic("a function that panics")
	case luck < 84 && job.ErrorCount < 1 && os.Getenv(staysUp) == "":
		time.Sleep(2 * callTimeout) // ignores its context
	case luck < 87 && job.ErrorCount < 1:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		time.Sleep(time.Duration(max(0, int(luck)-84)) * 5 * time.Millisecond)
	}
	return nil, nil //nolint:nilnil // the end of the row
}

// leaks writes the goroutines that are left when the command is over to a file, unless they end in time. A request to
// cancel a statement waits for the answer of a network that is silent. A process whose calls go on has abandoned them,
// and ends at once, as it would without this.
func (l *startLedger) leaks(path string) error {
	var left []string
	for range 500 {
		if left = goroutines(); len(left) == 0 || l.calls.Load() > 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%d goroutines of %v are left\n%s\n\n", len(left), os.Args, strings.Join(left, "\n\n"))
	return errors.Join(err, file.Close())
}

// goroutines returns the stacks of all but the first one, and that of package signal.
func goroutines() (left []string) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
		if !strings.Contains(stack, "os/signal.loop") {
			left = append(left, stack)
		}
	}
	return left
}

// environment is that of a process which reaches the database at a URL.
func (t *torture) environment(url string) []string {
	env := []string{
		startsFile + "=" + t.starts(),
		leaksFile + "=" + t.leaks(),
		"PRESCIENT_DATABASE_URL=" + url,
		"PRESCIENT_RUN_LEASE=" + lease.String(),
		"PRESCIENT_RUN_GRACE=" + grace.String(),
		"PRESCIENT_RUN_WORKERS=16",
		"PRESCIENT_RUN_PAGE=50",
		"PRESCIENT_RUN_START_TOLERANCE=1s",
		"PRESCIENT_CONFIG=" + t.config,
	}
	if t.soaked || t.cronned { // a busy machine is no reason to abandon a check
		env = append(env, staysUp+"=1", "PRESCIENT_RUN_GRACE=10s")
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PRESCIENT_") && !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return env
}

// attributes let a process end with this one.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
