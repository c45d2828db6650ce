package learn

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Bounds of what is read of history.
type Bounds struct {
	// Rows are how many rows are read, of whatever jobs. Default DefaultRows.
	Rows int64
	// PerJob is how many of a job are used. Default DefaultPerJob.
	PerJob int64
	// Time is how long the server may take. Default DefaultTime.
	Time time.Duration
}

// Defaults of Bounds.
const (
	DefaultRows   = 200_000
	DefaultPerJob = 5_000
	DefaultTime   = 10 * time.Second
)

// row is what is known of an ended row; ages are in seconds.
type row struct {
	job, class     string
	open, finished sql.NullInt64
	waited         int64
	checks         int64
}

// interval returns what is known of when a row was finished; false: nothing.
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

// read reads the newest rows of history of jobs, the newest first, and how many rows that took. No jobs: all of them. by has
// the field of each that tells its classes.
func read(ctx context.Context, tx *sqlx.Tx, schema pgsql.Schema, jobs, by []string, b Bounds) (rows []row, taken int64, err error) {
	var since sql.NullTime
	var m pgsql.Message
	m.Do(fmt.Sprintf("set local statement_timeout = %d", cmp.Or(b.Time, DefaultTime).Milliseconds()))
	m.Do("set local jit = off; set local enable_seqscan = off") // BRIN finds the end of a partition, whatever the statistics say
	rowsMost := cmp.Or(b.Rows, DefaultRows)
	err = m.Add(pgsql.LearnSince.In(schema), []any{rowsMost}, func(row *sql.Rows) error { return row.Scan(&since) })
	if err == nil {
		err = m.Send(ctx, tx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the ledger: %w", err)
	}
	args := []any{since.Time, nil, nil, cmp.Or(b.PerJob, DefaultPerJob), rowsMost}
	if !since.Valid {
		args[0] = time.Unix(0, 0)
	}
	if jobs != nil {
		args[1], args[2] = pq.StringArray(jobs), pq.Array(nulls(by))
	}
	var sample pgsql.Message
	err = sample.Add(pgsql.LearnSample.In(schema), args, func(line *sql.Rows) error {
		var r row
		var waited sql.NullInt64
		err := line.Scan(&r.job, &r.class, &r.open, &r.finished, &waited, &r.checks, &taken)
		r.waited = waited.Int64
		rows = append(rows, r)
		return err
	})
	if err == nil {
		err = sample.Send(ctx, tx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read history: %w", err)
	}
	return rows, taken, nil
}

func nulls(list []string) []sql.NullString {
	out := make([]sql.NullString, len(list))
	for i, s := range list {
		out[i] = sql.NullString{String: s, Valid: s != ""}
	}
	return out
}

// maxClasses is how many classes of a job have a curve of their own.
const maxClasses = 50

// curves makes the curves of a job of its rows: that of all, first, and those of its largest classes.
func curves(job string, rows []row, now time.Time) []*Curve {
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
		c.Job, c.ComputedAt = job, now.UTC()
	}
	return list
}

// errEnough keeps a transaction from being committed that has nothing to write.
var errEnough = errors.New("nothing to do")
