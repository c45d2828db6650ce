package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// scale shows that the cost of a run is the cost of what is due, however many rows wait.
func scale(ctx context.Context, b *bench) error {
	return errors.Join(b.due(ctx), b.emptySlot(ctx), b.smallSlot(ctx))
}

// due measures runs of due rows out of more and more that wait. Each size has slots of its own, whose rows are
// scattered over all that was filled in for it.
func (b *bench) due(ctx context.Context) error {
	s, err := b.server.store(ctx, "scale")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	sizes := []int{10 * b.rows, 100 * b.rows, 300 * b.rows}
	switch {
	case b.short:
		sizes = sizes[:1]
	case b.toy:
		sizes = []int{10 * b.rows, 20 * b.rows, 30 * b.rows}
	}
	var base series
	for i, size := range sizes {
		rates, err := b.waitingSize(ctx, s, i, size)
		if err != nil {
			return err
		}
		f := figure{
			Workload: "scale", Case: fmt.Sprintf("%s due of %s, scattered, keyed", short(b.rows), short(size)),
			Subject: "prescient, time", Unit: "s", Value: float64(b.rows) / rates.median(),
		}
		if f.Note, err = s.size(ctx); err != nil {
			return err
		}
		if i == 0 {
			b.report.add(f, 0, nil)
			base = rates
			continue
		}
		// The ratio of times is the inverse of the ratio of rates.
		f.Against, f.Base = short(sizes[i-1])+" waiting", float64(b.rows)/base.median()
		f.Ratios = base.over(rates)
		f.Ratio = median(f.Ratios)
		var t *target
		if i == 2 {
			t = atMost(1.3, "")
		}
		b.report.add(f, f.Ratio, t)
		base = rates
	}
	return nil
}

// waitingSize grows the table to size and runs a slot of it in each round. Its due slots are the rounds from
// 1000 * step on; all other rows wait for one of 2000 slots, three weeks, that come later.
func (b *bench) waitingSize(ctx context.Context, s *store, step, size int) (rates series, err error) {
	have, err := s.count(ctx, "select count(*) from prescient.future_job")
	if err != nil {
		return nil, err
	}
	more := size - int(have) + b.rows*(b.rounds-1) // in the last round, size rows wait
	stride := more / b.rows
	if stride <= b.rounds {
		return nil, fmt.Errorf("%d rows are too few for %d slots of %d", more, b.rounds, b.rows)
	}
	// Row n is due when n modulo stride is the number of a round; the last rows beyond b.rows strides never are.
	slot := fmt.Sprintf("case when n %% %d < %d and n < %d then %d + n %% %d else 10000 + n * 7919 %% 2000 end",
		stride, b.rounds, stride*b.rows, 1000*step, stride)
	if err := s.fill(ctx, more, slot, true); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		p, err := b.measure(ctx, side{
			prepare: s.forget,
			measure: func(ctx context.Context) (part, error) {
				return s.run(ctx, register(finish), s.slot(1000*step+round), b.rows)
			},
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, p.rate())
		b.log.InfoContext(ctx, "measured", "what", "scale", "waiting", size, "round", round+1, "took",
			p.took.Round(time.Millisecond))
	}
	return rates, nil
}

// size says how much disk the waiting rows take.
func (s *store) size(ctx context.Context) (string, error) {
	var table, indexes, row string
	err := s.db.QueryRowContext(ctx, `
		select pg_size_pretty(pg_table_size('prescient.future_job')), pg_size_pretty(pg_indexes_size('prescient.future_job')),
			(select round(avg(pg_column_size(f.*))) from (select * from prescient.future_job limit 1000) as f)::text`,
	).Scan(&table, &indexes, &row)
	if err != nil {
		return "", fmt.Errorf("read the size: %w", err)
	}
	return fmt.Sprintf("%s of rows and %s of indexes on disk; %s bytes a row", table, indexes, row), nil
}

// emptySlot measures the whole process that a scheduler starts when nothing is due.
func (b *bench) emptySlot(ctx context.Context) error {
	s, err := b.server.store(ctx, "empty_slot")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	binary, err := b.build(ctx)
	if err != nil {
		return err
	}
	const runs = 10
	first := s.grid.Add(s.first, -2*int(24*time.Hour/s.grid.Width())) // in the past, as the process asks the real clock
	l, err := ledger.New(ctx, s.db, "", nil)
	if err == nil {
		err = l.Begin(ctx, first)
	}
	if err != nil {
		return err
	}
	var millis []float64
	for i := range runs {
		took, err := s.process(ctx, binary, s.grid.Add(first, i))
		if err != nil {
			return err
		}
		millis = append(millis, float64(took.Microseconds())/1000)
	}
	if err := s.expect(ctx, runs,
		"select count(*) from prescient.slot_run where state = 'done' and planned = 0"); err != nil {
		return err
	}
	value := median(millis)
	b.report.add(figure{
		Workload: "scale", Case: "an empty slot", Subject: "the process `prescient run`", Value: value, Unit: "ms",
		Note: fmt.Sprintf("median of %d, from start to exit", runs),
	}, value, atMost(100, "ms"))
	return nil
}

// build builds the stock binary. Its module has what it needs, other than the one of this command.
func (b *bench) build(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/prescient-go/prescient").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of prescient: %w; run this command in the directory of its own module", err)
	}
	binary := filepath.Join(b.server.dir, "prescient")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/prescient")
	cmd.Dir = strings.TrimSpace(string(dir))
	if !b.toy { // toys take what the build of the tests has compiled
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build prescient: %w; it said: %s", err, out)
	}
	return binary, nil
}

// process runs the binary for one slot.
func (s *store) process(ctx context.Context, binary string, slot time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "run", "--slot", slot.Format(time.RFC3339))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PRESCIENT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "PRESCIENT_DATABASE_URL="+s.url)
	cmd.Dir = s.dir
	cmd.WaitDelay = 5 * time.Second
	started := clock()
	out, err := cmd.CombinedOutput()
	took := time.Since(started)
	if err != nil {
		return took, fmt.Errorf("run prescient: %w; it said: %s", err, out)
	}
	return took, nil
}

// smallSlot counts the transactions of a slot with ten rows, and of the runner's start.
func (b *bench) smallSlot(ctx context.Context) error {
	s, err := b.server.store(ctx, "small_slot")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	const rows = 10
	var start, whole []float64
	for round := range b.rounds {
		if err := s.insert(ctx, rows, fmt.Sprint(round), true); err != nil {
			return err
		}
		n, err := s.transactions(ctx, func(url string) error { return small(ctx, url, s.slot(round), 0) })
		if err != nil {
			return err
		}
		start = append(start, n)
		if n, err = s.transactions(ctx, func(url string) error { return small(ctx, url, s.slot(round), rows) }); err != nil {
			return err
		}
		whole = append(whole, n)
	}
	value := median(whole) - median(start)
	b.report.add(figure{
		Workload: "scale", Case: "a slot of 10 rows", Subject: "opening, claiming, recording and closing it", Value: value,
		Unit: "transactions",
		Note: fmt.Sprintf("and %g to start a runner", median(start)),
	}, value, atMost(6, "transactions"))
	return nil
}

// small makes a runner with connections of its own, and runs a slot if it has rows.
func small(ctx context.Context, url string, slot time.Time, rows int64) (err error) {
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	runner, err := slots.NewRunner(ctx, slots.Config{
		DB: db, Registry: register(finish),
		Now: func() time.Time { return slot }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil || rows == 0 {
		return err
	}
	result, err := runner.Run(ctx, slot)
	if err == nil && result.Finished != rows {
		err = fmt.Errorf("the run finished %d of %d rows", result.Finished, rows)
	}
	return err
}

// transactions counts what fn commits and rolls back. A session tells its numbers when it ends.
func (s *store) transactions(ctx context.Context, fn func(url string) error) (float64, error) {
	s.db.SetMaxIdleConns(0) // sessions of ours have told theirs
	s.pool.Reset()
	before, err := s.settled(ctx)
	if err != nil {
		return 0, err
	}
	if err := fn(s.url); err != nil {
		return 0, err
	}
	after, err := s.settled(ctx)
	return float64(after - before), err
}

// settled returns the number of transactions of the database once no session is connected to it.
func (s *store) settled(ctx context.Context) (n int64, err error) {
	for range 500 {
		var sessions int
		err := s.admin.QueryRowContext(ctx, `
			select xact_commit + xact_rollback, (select count(*) from pg_stat_activity where datname = $1)
			from pg_stat_database
			where datname = $1`, s.name).Scan(&n, &sessions)
		if err != nil {
			return 0, fmt.Errorf("count transactions: %w", err)
		}
		if sessions == 0 {
			time.Sleep(50 * time.Millisecond)
			err := s.admin.QueryRowContext(ctx, "select xact_commit + xact_rollback from pg_stat_database where datname = $1",
				s.name).Scan(&n)
			return n, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, errors.New("count transactions: somebody stays connected")
}
