package learn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Every is how old the curves of a job become before a run makes them anew.
const Every = time.Hour

// Book is the curves of jobs, by job and class. The zero value has none.
type Book map[string]map[string]*Curve

// Open reads the curves of jobs. An empty list has none.
func Open(ctx context.Context, db *sqlx.DB, schema pgsql.Schema, list []*jobs.Definition) (Book, error) {
	book := Book{}
	err := pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		clear(book)
		rows, err := tx.QueryContext(ctx, pgsql.LearnCurves.In(schema), pq.Array(names(list)))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			c := &Curve{}
			err := rows.Scan(&c.Job, &c.Class, (*pq.Int64Array)(&c.Ages), (*pq.Float64Array)(&c.Finished), &c.Sampled, &c.ComputedAt)
			if err != nil {
				return err
			}
			c.ComputedAt = c.ComputedAt.UTC()
			book.add(c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the curves of jobs: %w", err)
	}
	return book, nil
}

func (b Book) add(c *Curve) {
	if b[c.Job] == nil {
		b[c.Job] = map[string]*Curve{}
	}
	b[c.Job][c.Class] = c
}

// of returns the curve of a class of a job, or that of the job where the class has none; nil: there is too little history.
func (b Book) of(job, class string) *Curve {
	if c := b[job][class]; c != nil && len(c.Ages) > 0 {
		return c
	}
	if c := b[job][""]; c != nil && len(c.Ages) > 0 {
		return c
	}
	return nil
}

// Stale returns those of jobs that learn whose curves are to be made anew.
func (b Book) Stale(list []*jobs.Definition, now time.Time) (stale []*jobs.Definition) {
	for _, d := range list {
		if c := b[d.Name][""]; c == nil || now.Sub(c.ComputedAt) >= Every || c.ComputedAt.After(now) {
			stale = append(stale, d)
		}
	}
	return stale
}

// Refresh makes the curves of jobs anew, of those that have none from after since, unless somebody else is at it. now is by the
// clock that slots are compared with. It returns how many jobs it has learned, and how many rows of history it has read.
func Refresh(ctx context.Context, db *sqlx.DB, schema pgsql.Schema, list []*jobs.Definition, since, now time.Time, b Bounds) (learned int, taken int64, err error) {
	fields := map[string]string{}
	for _, d := range list {
		fields[d.Name] = d.LearnBy
	}
	err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		learned, taken = 0, 0
		var due, by []string
		if err := tx.SelectContext(ctx, &due, pgsql.LearnBegin.In(schema), pq.Array(names(list)), since); err != nil {
			return err
		}
		if len(due) == 0 {
			return errEnough
		}
		for _, name := range due {
			by = append(by, fields[name])
		}
		rows, n, err := read(ctx, tx, schema, due, by, b)
		if err != nil {
			return err
		}
		learned, taken = len(due), n
		return write(ctx, tx, schema, due, group(rows), now)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, 0, fmt.Errorf("learn from history: %w", err)
	}
	return learned, taken, nil
}

func names(list []*jobs.Definition) []string {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name
	}
	return names
}

// group is rows by job.
func group(rows []row) map[string][]row {
	of := map[string][]row{}
	for _, r := range rows {
		of[r.job] = append(of[r.job], r)
	}
	return of
}

func write(ctx context.Context, tx *sqlx.Tx, schema pgsql.Schema, names []string, rows map[string][]row, now time.Time) error {
	for _, name := range names {
		if _, err := tx.ExecContext(ctx, pgsql.LearnForget.In(schema), name); err != nil {
			return err
		}
		for _, c := range curves(name, rows[name], now) {
			args := []any{c.Job, c.Class, pq.Int64Array(c.Ages), pq.Float64Array(c.Finished), c.Sampled, c.ComputedAt}
			if _, err := tx.ExecContext(ctx, pgsql.LearnWrite.In(schema), args...); err != nil {
				return err
			}
		}
	}
	return nil
}
