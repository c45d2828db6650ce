package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// serveJobs is how many jobs the ledger has.
const serveJobs = 20

// serve has browsers look at every page of prescient serve, with rows that wait and a year of ledger.
func serve(ctx context.Context, b *bench) (err error) {
	s, err := b.server.store(ctx, "serve")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	waiting := 100 * b.rows
	if b.short {
		waiting = 10 * b.rows
	}
	if err := errors.Join(s.fillLean(ctx, waiting), s.fillLedger(ctx, b.past)); err != nil {
		return err
	}
	counted := s.exec(ctx, "create extension pg_stat_statements", "select pg_stat_statements_reset()") == nil
	binary, err := b.build(ctx)
	if err != nil {
		return err
	}
	url, stop, err := s.serve(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	started := clock()
	took, busy, never, err := b.look(ctx, url, s)
	if err == nil && busy > 0 {
		err = fmt.Errorf("%d requests were told to try again, %d pages were answered", busy, len(took))
	}
	if err != nil {
		return err
	}
	elapsed := time.Since(started)
	slices.Sort(took)
	p := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	name := fmt.Sprintf("%d browsers, %s rows waiting, %d days of ledger", b.browsers, short(waiting), b.past/96)
	b.report.add(figure{
		Workload: "serve", Case: name, Subject: "an answer, 95 of 100", Value: p(0.95), Unit: "ms",
		Note: never + fmt.Sprintf("half %.1f, 99 of 100 %.1f, the slowest %.0f ms; %d answers",
			p(0.5), p(0.99), p(1), len(took)),
	}, p(0.95), atMost(100, "ms"))
	if !counted {
		b.report.note("Statements of serve were not counted: that needs -pg shared_preload_libraries=pg_stat_statements.")
		return nil
	}
	n, err := s.count(ctx, `select coalesce(sum(calls), 0) from pg_stat_statements where query ~ 'prescient\.'`)
	if err != nil {
		return err
	}
	rate := float64(n) / elapsed.Seconds()
	b.report.add(figure{
		Workload: "serve", Case: name, Subject: "statements that read tables, on average", Value: rate, Unit: "a second",
		Note: fmt.Sprintf("of which 1,000 in all are those of a rested server, over %s", elapsed.Round(time.Second)),
	}, rate, atMost(100+1000/elapsed.Seconds(), "a second"))
	return nil
}

// fillLedger makes slots that were run, of some jobs.
func (s *store) fillLedger(ctx context.Context, past int) error {
	return s.exec(ctx,
		fmt.Sprintf(`insert into prescient.slot_run (slot, state, kind, planned, checked, finished, opened_at, finished_at, settled)
			select slot, 'done', 'run', 1000, 1000, 1000, slot + interval '1 second', slot + interval '40 seconds', true
			from generate_series(prescient.slot_floor(now(), interval '15 minutes') - %d * interval '15 minutes', now(), interval '15 minutes') as slot`, past),
		fmt.Sprintf(`insert into prescient.job (job, name, registered_at) select n, name, now()
			from generate_series(0, %d - 1) as n, lateral (select 'job.' || n) as j (name) on conflict do nothing`, serveJobs),
		`insert into prescient.slot_job (slot, job, planned, drained, finished, spent, first_at, last_at)
			select slot, j.job, 100, true, 100, interval '10 seconds', opened_at, finished_at from prescient.slot_run, prescient.job j where j.name like 'job.%'`,
		`insert into prescient.slot_lateness (slot, job, bucket, checks) select slot, job, 10, 100 from prescient.slot_job`,
		`update prescient.setting set since = (select min(slot) from prescient.slot_run)`,
		"vacuum analyze")
}

// fillLean adds rows without a payload, that nothing but their slot finds: of twenty jobs, in 2,000 slots around now.
func (s *store) fillLean(ctx context.Context, rows int) error {
	restore, err := s.dropIndexes(ctx)
	for from := 0; from < rows && err == nil; from += chunk {
		err = s.exec(ctx, fmt.Sprintf(`
			insert into prescient.future_job (job, entity_name, entity_key, item_key, first_check_at, next_check_at)
			select n %% 20, 'order', n::text, case when n %% 1000 = 0 then '' end, at, at
			from generate_series(%d, %d) as n,
				lateral (select prescient.slot_floor(now(), interval '15 minutes') + (1 + n / 20 * 7919::bigint %% 2000) * interval '15 minutes' as at) as v`,
			from, min(from+chunk, rows)-1))
		err = errors.Join(err, s.checkpoint(ctx))
	}
	if err == nil {
		err = s.exec(ctx, restore...)
	}
	return err
}

// serve starts prescient serve, and returns where it listens.
func (s *store) serve(ctx context.Context, binary string) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--database-url", s.url)
	cmd.Env = append(os.Environ(), "PRESCIENT_DATABASE_URL=")
	cmd.Dir = s.dir
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start prescient serve: %w", err)
	}
	stop = func() error { return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }
	lines := bufio.NewScanner(log)
	said := ""
	for lines.Scan() {
		said += lines.Text() + "\n"
		if at := regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(lines.Text()); at != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://" + at[1] + "/api/v1", stop, nil
		}
	}
	return "", nil, errors.Join(fmt.Errorf("prescient serve does not listen; it said: %s", said), stop())
}

// look has browsers read pages for some time, a random page each second. It returns how long each answer took, how many
// requests were told to try again, and which pages had no other answer. The error is the first one.
func (b *bench) look(
	ctx context.Context, url string, s *store,
) (took []time.Duration, busy int, never string, err error) {
	slot := clock().UTC().Truncate(15 * time.Minute)
	pages := []string{
		"/overview", "/ledger", "/jobs", "/job" + "s/job.3", "/schedules", "/events", "/actions",
		"/slots/" + slot.Add(-time.Hour).Format(time.RFC3339), "/slots/" + s.slot(3).UTC().Format(time.RFC3339),
		"/entity?entity_name=order&entity_key=7000", "/history", "/checks?limit=50",
	}
	ctx, cancel := context.WithTimeout(ctx, b.browse)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.browsers}}
	asked, answered := map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for range b.browsers {
		work.Go(func() {
			for ctx.Err() == nil {
				page := pages[rand.IntN(len(pages))] //nolint:gosec // no secret
				began := clock()
				failed := get(ctx, client, url+page)
				d := time.Since(began)
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case errors.Is(failed, errBusy):
					busy++
					asked[page] = true
				case failed == nil:
					took = append(took, d)
					answered[page] = true
				case err == nil:
					err = failed
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	work.Wait()
	for _, page := range pages {
		if asked[page] && !answered[page] {
			never += "**" + page + " was never answered**; "
		}
	}
	return took, busy, never, err
}

// errBusy is that the server answers later: it bounds the statements that pages send.
var errBusy = errors.New("try again")

func get(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode == http.StatusServiceUnavailable {
		return errBusy
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", url, answer.Status, body)
	}
	return nil
}
