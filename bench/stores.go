package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prescient-go/prescient/slots"
)

// mostStores is how many PostgreSQL servers there are, each with one store.
const mostStores = 4

// fleet is stores on servers of their own.
type fleet []*store

// stores shows what does not change when the same rows are in more stores: what a row costs, and, with very many that wait, how
// long the slot of a store takes. How much faster more machines are, two cores cannot show.
func stores(ctx context.Context, b *bench) (err error) {
	f, stop, err := newFleet(ctx, filepath.Dir(b.server.dir))
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := f.cost(ctx, b); err != nil {
		return err
	}
	if b.waiting == 0 {
		return nil
	}
	return f.waiting(ctx, b)
}

func newFleet(ctx context.Context, parent string) (f fleet, stop func() error, err error) {
	stop = func() (err error) {
		for _, s := range f {
			s.drop(ctx)
			err = errors.Join(err, s.stop())
		}
		return err
	}
	own := maps.Clone(settings)
	own["shared_preload_libraries"] = "pg_stat_statements"
	own["max_wal_size"] = "2GB" // four times
	for range mostStores {
		server, err := startServerWith(ctx, parent, own)
		if err != nil {
			return f, stop, err
		}
		s, err := server.store(ctx, "store")
		if err != nil {
			return f, stop, errors.Join(err, server.stop())
		}
		f = append(f, s)
		if err := s.exec(ctx, "create extension pg_stat_statements"); err != nil {
			return f, stop, err
		}
	}
	return f, stop, nil
}

// cost measures what the rows of a slot cost when they are in one, two and four stores.
func (f fleet) cost(ctx context.Context, b *bench) error {
	rows := mostStores * b.rows
	var cpu, statements [][]float64
	counts := []int{1, 2, 4}
	for round := range b.rounds {
		for i, n := range counts {
			if round == 0 {
				cpu, statements = append(cpu, nil), append(statements, nil)
			}
			used, sent, err := f[:n].runOnce(ctx, rows)
			if err != nil {
				return fmt.Errorf("%d stores: %w", n, err)
			}
			cpu[i], statements[i] = append(cpu[i], used.Seconds()*1e6/float64(rows)), append(statements[i],
				1000*float64(sent)/float64(rows))
			b.log.InfoContext(ctx, "measured", "what", "stores", "stores", n, "round", round+1, "rows", rows, "cpu", used,
				"statements", sent)
		}
	}
	what := short(rows) + " rows due in one slot"
	b.report.add(figure{
		Workload: "stores", Case: what, Subject: "1 store, CPU of servers and runner", Value: median(cpu[0]), Unit: "µs a row",
		Note: fmt.Sprintf("%.1f statements for 1,000 rows", median(statements[0])),
	}, 0, nil)
	for i, n := range counts[1:] {
		f := figure{
			Workload: "stores", Case: what, Subject: fmt.Sprintf("%d stores, CPU of servers and runner", n), Against: "1 store",
			Value: median(cpu[i+1]), Base: median(cpu[0]), Unit: "µs a row",
			Note: fmt.Sprintf("%.1f statements for 1,000 rows", median(statements[i+1])),
		}
		f.Ratios = series(cpu[i+1]).over(cpu[0])
		f.Ratio = median(f.Ratios)
		b.report.add(f, f.Ratio, atMost(1.05, ""))
	}
	return nil
}

// runOnce runs a slot of rows that are in all stores alike, and returns the CPU time and the statements that took.
func (f fleet) runOnce(ctx context.Context, rows int) (used time.Duration, sent int64, err error) {
	for _, s := range f {
		err := s.empty(ctx)
		if err == nil {
			err = s.fill(ctx, rows/len(f), "0", true)
		}
		if err == nil {
			err = errors.Join(s.exec(ctx, "select pg_stat_statements_reset()"), s.checkpoint(ctx))
		}
		if err != nil {
			return 0, 0, err
		}
	}
	before, err := f.cpu(ctx)
	if err == nil {
		err = f.run(ctx, 0, rows/len(f))
	}
	if err != nil {
		return 0, 0, err
	}
	after, err := f.cpu(ctx)
	for _, s := range f {
		n, failed := s.count(ctx,
			`select coalesce(sum(calls), 0) from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())`)
		sent, err = sent+n, errors.Join(err, failed)
	}
	return after - before, sent, err
}

// run runs a slot of all stores beside each other, under one bound of workers, as prescient run does.
func (f fleet) run(ctx context.Context, slot, rows int) error {
	shared := slots.Shared{Workers: make(slots.Bound, slots.DefaultWorkers)}
	errs := make([]error, len(f))
	var work sync.WaitGroup
	for i, s := range f {
		work.Go(func() { errs[i] = s.runShared(ctx, slot, rows, shared) })
	}
	work.Wait()
	return errors.Join(errs...)
}

func (s *store) runShared(ctx context.Context, slot, rows int, shared slots.Shared) error {
	at := s.slot(slot)
	runner, err := slots.NewRunner(ctx, slots.Config{
		DB: s.db, Registry: register(finish), Connections: connections - slots.OwnConnections, Shared: shared,
		Now: func() time.Time { return at }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	result, err := runner.Run(ctx, at)
	if err == nil && (result.State != slots.StateDone || result.Finished != int64(rows)) {
		err = fmt.Errorf("the run finished %d of %d rows, and left the slot %s", result.Finished, rows, result.State)
	}
	return err
}

// waiting measures the slot of a store out of very many rows that wait in it: alone, and when as many wait in each of the others.
func (f fleet) waiting(ctx context.Context, b *bench) error {
	each := b.waiting / len(f)
	var alone, beside slotTimes
	for i, s := range f {
		if err := s.scatter(ctx, b, each); err != nil {
			return err
		}
		for round := range b.rounds {
			if i == 0 {
				if err := alone.add(ctx, b, s, round); err != nil {
					return err
				}
			}
		}
	}
	for round := range b.rounds {
		for _, s := range f {
			if err := beside.add(ctx, b, s, b.rounds+round); err != nil {
				return err
			}
		}
	}
	size, err := f[0].size(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s due in each of %d stores, %s waiting in all", short(b.rows), len(f), short(b.waiting))
	against := fmt.Sprintf("one store of %s, alone", short(each))
	took := figure{
		Workload: "stores", Case: what, Subject: "the run of a store, time", Against: against, Unit: "s",
		Note: "in each " + size,
	}
	took.Value, took.Base = median(beside.took), median(alone.took)
	took.Ratio = took.Value / took.Base
	b.report.add(took, took.Ratio, atMost(1.1, ""))
	cpu := figure{Workload: "stores", Case: what, Subject: "the run of a store, CPU", Against: against, Unit: "µs a row"}
	cpu.Value, cpu.Base = median(beside.cpu), median(alone.cpu)
	cpu.Ratio = cpu.Value / cpu.Base
	b.report.add(cpu, cpu.Ratio, nil)
	return nil
}

// slotTimes is what slots took, in seconds, and their CPU time, in microseconds for each row.
type slotTimes struct {
	took, cpu []float64
}

// add runs a slot of a store.
func (t *slotTimes) add(ctx context.Context, b *bench, s *store, slot int) error {
	if err := errors.Join(s.forget(ctx), s.checkpoint(ctx)); err != nil {
		return err
	}
	before, err := fleet{s}.cpu(ctx)
	if err != nil {
		return err
	}
	p, err := s.run(ctx, register(finish), s.slot(slot), b.rows)
	if err != nil {
		return err
	}
	after, err := fleet{s}.cpu(ctx)
	b.log.InfoContext(ctx, "measured", "what", "stores", "rows", p.rows, "took", p.took.Round(time.Millisecond), "cpu",
		after-before)
	t.took = append(t.took, p.took.Seconds())
	t.cpu = append(t.cpu, float64((after-before).Microseconds())/float64(p.rows))
	return err
}

// scatter fills a store with rows without a payload, so that they fit on one disk. Those of the first slots are scattered over all the others, which come later.
func (s *store) scatter(ctx context.Context, b *bench, rows int) error {
	stride := rows / b.rows
	if stride < 2*b.rounds {
		return fmt.Errorf("%d rows are too few for %d slots of %d", rows, 2*b.rounds, b.rows)
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
	restore, err := s.dropIndexes(ctx)
	for from := 0; from < rows && err == nil; from += chunk {
		err = s.exec(ctx, fmt.Sprintf(`
			insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
			select (select prescient.ensure_job('%s')), 'order', n::text, at, at
			from generate_series(%d::bigint, %d::bigint) as n, lateral (
				select '%s'::timestamptz + case when n %% %d < %d and n < %d then n %% %d else 10000 + n * 7919 %% 2000 end * interval '%d seconds' as at
			) as v`,
			jobName, from, min(from+chunk, rows)-1, s.first.Format(time.RFC3339), stride, 2*b.rounds, stride*b.rows, stride, int64(s.grid.Width()/time.Second)))
		err = errors.Join(err, s.checkpoint(ctx))
	}
	if err == nil {
		err = s.exec(ctx, restore...)
	}
	if err != nil {
		return err
	}
	return s.vacuum(ctx)
}

// cpu is the CPU time of this process and of the servers so far.
func (f fleet) cpu(ctx context.Context) (time.Duration, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, err
	}
	total := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, s := range f {
		used, err := s.cpu(ctx)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// tick is the unit of /proc/PID/stat.
const tick = 10 * time.Millisecond

// cpu is the CPU time of a server: of its first process, of those that it had, and of those that it has.
func (s *server) cpu(ctx context.Context) (total time.Duration, err error) {
	var data string
	if err := s.admin.QueryRowContext(ctx, "select current_setting('data_directory')").Scan(&data); err != nil {
		return 0, fmt.Errorf("find the server: %w", err)
	}
	file, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(file), "\n")
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range processes {
		text, gone := os.ReadFile(path)
		if gone != nil {
			continue
		}
		// After the name, which may have spaces: the state, the parent, and from the 12th on utime, stime, cutime, cstime.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		own := filepath.Base(filepath.Dir(path)) == first
		if !own && fields[1] != first {
			continue
		}
		times := fields[11:13]
		if own {
			times = fields[11:15]
		}
		for _, ticks := range times {
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			total += time.Duration(n) * tick
		}
	}
	return total, err
}
