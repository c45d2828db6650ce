package advise

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Bounds limits what is read of history.
type Bounds struct {
	// Rows bounds the rows that are read, of all jobs together. Defaults to DefaultRows.
	Rows int64
	// PerJob bounds the rows of a job that are used. Defaults to DefaultPerJob.
	PerJob int64
	// Time bounds how long the server may take. Defaults to DefaultTime.
	Time time.Duration
}

// The defaults of Bounds.
const (
	DefaultRows   = 200_000
	DefaultPerJob = 5_000
	DefaultTime   = 10 * time.Second
)

// row is an ended row. Its ages are in seconds.
type row struct {
	job, class     string
	open, finished sql.NullInt64
	waited         int64
	checks, vain   int64 // vain: checks that found nothing
}

// cancelled reports whether the owner of the row ended it.
func (r row) cancelled() bool { return r.finished.Valid && r.checks == r.vain }

// interval returns what is known of when a row was finished. Returns false if nothing is known.
func (r row) interval() (interval, bool) {
	k := interval{from: min(-1, -r.waited), to: forever}
	if r.open.Valid {
		k.from = r.open.Int64
	}
	if r.finished.Valid {
		k.to = r.finished.Int64
		k.from = min(k.from, k.to-1)
	}
	return k, r.open.Valid || r.finished.Valid
}

// read returns the newest rows of history of jobs, the newest first, and how many rows it read. No
// jobs means all jobs. by has, for each job, the field that defines its classes.
func read(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, jobs, by []string, b Bounds,
) (rows []row, taken int64, err error) {
	var m pg.Message
	m.Do(fmt.Sprintf("set local statement_timeout = %d", cmp.Or(b.Time, DefaultTime).Milliseconds()))
	// BRIN finds the end of a partition, even with bad statistics
	m.Do("set local jit = off; set local enable_seqscan = off")
	if err := m.Send(ctx, tx); err != nil {
		return nil, 0, fmt.Errorf("read history: %w", err)
	}
	rowsMost := cmp.Or(b.Rows, DefaultRows)
	age, err := newest(ctx, tx, schema, rowsMost)
	if err != nil {
		return nil, 0, fmt.Errorf("count the newest rows of history: %w", err)
	}
	args := []any{age, nil, nil, cmp.Or(b.PerJob, DefaultPerJob), rowsMost}
	if jobs != nil {
		args[1], args[2] = pq.StringArray(jobs), pq.StringArray(by)
	}
	var sample pg.Message
	sample.Add(pg.AdviseSample.In(schema), args, func(line *sql.Rows) error {
		var r row
		var waited sql.NullInt64
		err := line.Scan(&r.job, &r.class, &r.open, &r.finished, &waited, &r.checks, &r.vain, &taken)
		r.waited = waited.Int64
		rows = append(rows, r)
		return err
	})
	if err := sample.Send(ctx, tx); err != nil {
		return nil, 0, fmt.Errorf("read history: %w", err)
	}
	return rows, taken, nil
}

// newest returns an age in microseconds. At most rows rows of history are newer, and at least half
// as many if there are that many. History is read in the order in which rows ended, so a longer age
// would leave out the newest rows.
func newest(ctx context.Context, tx pg.Querier, schema pgsql.Schema, rows int64) (age int64, err error) {
	within, beyond := int64(1e6), int64(longest)
	age = beyond
	for range maxCounts {
		var n int64
		if err := pg.One(ctx, tx, pg.AdviseSince.In(schema), []any{age, rows + 1}, &n); err != nil {
			return 0, err
		}
		switch {
		case n > rows:
			beyond = age
		case 2*n >= rows || age == longest:
			return age, nil
		default:
			within = age
		}
		age = int64(math.Sqrt(float64(within) * float64(beyond)))
	}
	return beyond, nil // that many have ended at once
}

const (
	// maxCounts bounds the counts of newest. Five or six are enough, except for bursts.
	maxCounts = 16
	// longest is an age, in microseconds, beyond any history, even a replayed one: 300 years.
	longest = 1e16
)

// maxClasses bounds the classes of a job that have a curve.
const maxClasses = 50

// curves returns the curves of a job: first that of all its rows, then those of its largest
// classes.
func curves(job string, rows []row) []*Curve {
	all := []interval{}
	classes := map[string][]interval{}
	for _, r := range rows {
		if k, ok := r.interval(); ok {
			all = append(all, k)
			if r.class != "" {
				classes[r.class] = append(classes[r.class], k)
			}
		}
	}
	names := []string{}
	for name, known := range classes {
		if len(known) >= MinRows {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(classes[b]), len(classes[a])), cmp.Compare(a, b))
	})
	list := []*Curve{fit(all)}
	for _, name := range names[:min(len(names), maxClasses)] {
		if c := fit(classes[name]); len(c.Ages) > 0 {
			c.Class = name
			list = append(list, c)
		}
	}
	for _, c := range list {
		c.Job = job
	}
	return list
}

// group returns rows by job.
func group(rows []row) map[string][]row {
	of := map[string][]row{}
	for _, r := range rows {
		of[r.job] = append(of[r.job], r)
	}
	return of
}
