package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// soakPlaces are the processes of a soak: a daemon of each kind, and what cron would start in each slot.
func (t *torture) soakPlaces(ctx context.Context) ([]*place, error) {
	all := []*place{{name: "run a", kind: "a", args: []string{"run", "--catch-up"}, every: t.width()}}
	for _, kind := range []string{"a", "b"} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		at := l.Addr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
		all = append(all, &place{name: "daemon " + kind, kind: kind, args: []string{"daemon", "--listen", at}, listens: at})
	}
	return all, nil
}

// columns are those of the file of samples, in their order. Sizes are in kB, lateness in ms. A heap
// is the size at which Go collects garbage next, twice of what is in use.
var columns = []string{
	"seconds", "load",
	"daemon a memory", "daemon b memory", "daemon a heap", "daemon b heap", "daemon a goroutines", "daemon b goroutines",
	"daemon a connections", "daemon b connections", "server connections",
	"waiting rows", "future_job", "future_job indexes", "future_job dead",
	"other work tables", "other work indexes", "other work dead",
	"history rows", "kept tables and indexes", "checks", "lateness median", "lateness p99",
}

// sample are the values of the columns at one moment.
type sample map[string]float64

func (t *torture) samples() string { return filepath.Join(t.dir, "soak.csv") }

// soak takes samples for a while, and finds what has grown. The daemons get a minute to begin.
func (t *torture) soak(ctx context.Context, most time.Duration) (err error) {
	file, err := os.Create(t.samples())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := fmt.Fprintln(file, strings.Join(columns, ",")); err != nil {
		return err
	}
	began, every := time.Now(), cmp.Or(t.sampled, 30*time.Second)
	var all []sample
	pids := map[string]int{}
	for wait(ctx, every); ctx.Err() == nil; wait(ctx, every) {
		begins := len(all) == 0 && time.Since(began) < most+time.Minute
		if time.Since(began) > most && !begins {
			break
		}
		s, err := t.sample(ctx, every, pids)
		if err != nil {
			if !begins {
				t.broken("a sample of the soak: %v", err)
			}
			continue
		}
		s["seconds"] = time.Since(began).Round(time.Second).Seconds()
		line := make([]string, len(columns))
		for i, c := range columns {
			line[i] = strconv.FormatFloat(s[c], 'f', -1, 64)
		}
		if _, err := fmt.Fprintln(file, strings.Join(line, ",")); err != nil {
			return err
		}
		all = append(all, s)
	}
	t.count("samples", len(all))
	checkFlat(all, t.broken)
	return nil
}

// sample asks the daemons and the server.
func (t *torture) sample(ctx context.Context, since time.Duration, pids map[string]int) (sample, error) {
	s := sample{}
	for _, p := range t.places {
		if p.listens == "" {
			continue
		}
		metrics, err := scrape(ctx, "http://"+p.listens+"/metrics")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		s[p.name+" memory"] = float64(int(metrics["process_resident_memory_bytes"]) >> 10)
		s[p.name+" heap"] = float64(int(metrics["go_memstats_next_gc_bytes"]) >> 10)
		s[p.name+" goroutines"] = metrics["go_goroutines"]
		p.proxy.set(func(proxy *proxy) { s[p.name+" connections"] = float64(len(proxy.conns)) })
		pid := 0
		p.mu.Lock()
		if p.process != nil {
			pid = p.process.Pid
		}
		p.mu.Unlock()
		if before, ok := pids[p.name]; ok && before != pid {
			t.broken("%s has ended, and was started again", p.name)
		}
		pids[p.name] = pid
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	if s["load"], err = strconv.ParseFloat(strings.Fields(string(text))[0], 64); err != nil {
		return nil, err
	}
	return s, t.sampleServer(ctx, since, s)
}

// sampleServer adds what the server knows. Tables that lose rows as work goes may bloat. The others
// keep theirs, until the retention of the settings removes them.
func (t *torture) sampleServer(ctx context.Context, since time.Duration, s sample) error {
	rows, err := t.admin.QueryxContext(ctx, `
		with kind as (
			select c.oid, case
				when relname = 'future_job' then 'future_job'
				when relname = any ('{slot_claim,slot_progress,job_permit,job_rate,schedule_state}') then 'other work'
				else 'kept' end as kind
			from pg_class c
			where relnamespace = 'prescient'::regnamespace and relkind = 'r'
		), size as (
			select kind, sum(pg_table_size(oid)) / 1024 as tables, sum(pg_indexes_size(oid)) / 1024 as indexes,
				sum(pg_stat_get_dead_tuples(oid)) as dead
			from kind group by kind
		), late as (
			select count(*) as checks,
				percentile_cont('{0.5,0.99}'::float8[]) within group (order by 1000 * extract(epoch from at - slot)::float8) as ms
			from torture.effect where at > clock_timestamp() - $1::float8 * interval '1 second'
		)
		select 'server connections', count(*) from pg_stat_activity where datname = current_database()
		union all select 'waiting rows', count(*) from prescient.future_job
		union all select 'history rows', count(*) from prescient.future_job_history
		union all select case kind when 'other work' then kind || ' tables' else kind end, tables
		from size where kind <> 'kept'
		union all select kind || ' indexes', indexes from size where kind <> 'kept'
		union all select kind || ' dead', dead from size where kind <> 'kept'
		union all select 'kept tables and indexes', tables + indexes from size where kind = 'kept'
		union all select 'checks', checks from late
		union all select 'lateness median', coalesce(round(ms[1]::numeric), 0) from late
		union all select 'lateness p99', coalesce(round(ms[2]::numeric), 0) from late`, since.Seconds())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var value float64
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		s[name] = float64(int(value))
	}
	return rows.Err()
}

// scrape reads the metrics without labels.
func scrape(ctx context.Context, url string) (map[string]float64, error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, reply.Status)
	}
	all := map[string]float64{}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			all[name] = value
		}
	}
	return all, lines.Err()
}

// flat are the columns that may not grow, each with what it may grow by.
var flat = map[string]float64{
	"daemon a memory": 10 << 10, "daemon b memory": 10 << 10, "daemon a goroutines": 10, "daemon b goroutines": 10,
	"daemon a connections": 5, "daemon b connections": 5, "server connections": 10,
	"future_job": 200, "future_job indexes": 200, "future_job dead": 500,
	"other work tables": 500, "other work indexes": 500, "other work dead": 5000,
}

// checkFlat compares the medians of the second quarter of the samples and the last one.
func checkFlat(all []sample, broken func(string, ...any)) {
	quarter := len(all) / 4
	for _, column := range columns {
		may, ok := flat[column]
		if !ok || quarter < 5 {
			continue
		}
		if before, after := median(all[quarter:2*quarter], column), median(all[3*quarter:], column); after-before > may {
			broken("%s grew from %v to %v", column, before, after)
		}
	}
}

// median returns that of a column; 0 if there is no sample.
func median(of []sample, column string) float64 {
	var values []float64
	for _, s := range of {
		values = append(values, s[column])
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// readSamples reads a file of samples.
func readSamples(path string) (all []sample, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, line := range lines[1:] {
		s := sample{}
		for i, text := range line {
			if s[lines[0][i]], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}
