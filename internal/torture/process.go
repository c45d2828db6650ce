package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync"
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
)

const (
	atMost    = 2
	perSecond = 20

	callTimeout = time.Second
)

// startsFile is the variable that names the ledger of starts.
const startsFile = "TORTURE_STARTS"

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
	registry.Register(map[string]string{"a": onlyA, "b": onlyB}[kind], jobs.Row(l.plain), options...)
	os.Args = append([]string{"prescient"}, args...)
	return int(cmd.Run(registry))
}

// startLedger is the file of what was started and ended. A line is shorter than the size up to which the system
// appends in one piece.
type startLedger struct {
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
	if err := l.write("start", job); err != nil {
		return nil, err
	}
	defer func() { _ = l.write("end", job) }()
	return fate(ctx, job)
}

func (l *startLedger) tx(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	if err := l.write("start", job); err != nil {
		return nil, err
	}
	defer func() { _ = l.write("end", job) }()
	const effect = "insert into torture.effect (id, check_count) values ($1, $2)"
	if _, err := tx.ExecContext(ctx, effect, job.ID, job.CheckCount); err != nil {
		return nil, err
	}
	return fate(ctx, job)
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
	case luck < 84 && job.ErrorCount < 1:
		time.Sleep(2 * callTimeout) // ignores its context
	case luck < 87 && job.ErrorCount < 1:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		time.Sleep(time.Duration(luck-84) * 5 * time.Millisecond)
	}
	return nil, nil //nolint:nilnil // the end of the row
}

// environment is that of a process which reaches the database at a URL.
func environment(url, starts string) []string {
	env := []string{
		startsFile + "=" + starts,
		"PRESCIENT_DATABASE_URL=" + url,
		"PRESCIENT_RUN_LEASE=" + lease.String(),
		"PRESCIENT_RUN_GRACE=1s",
		"PRESCIENT_RUN_WORKERS=16",
		"PRESCIENT_RUN_BATCH_SIZE=50",
		"PRESCIENT_RUN_START_TOLERANCE=1s",
		"PRESCIENT_CONFIG=",
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
