package advise

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Options selects what advice is about. The zero value selects every job.
type Options struct {
	// Job is the only job, by its job_exec. Empty: all jobs.
	Job string
	// By names a field at the top level of the payload: a text, a number or a boolean. Rows of Job
	// with different values get advice of their own, for the 50 values with the most rows. Empty:
	// all rows of Job together.
	By string
	// Bounds limits what is read.
	Bounds Bounds
}

// Advice holds what history says about the checks of a job, or of a class of its rows. Ages count
// from when a row was enqueued, assuming the median time before its first slot.
type Advice struct {
	Job   string `json:"job_exec"`
	Class string `json:"class"` // the value of the field of --by; empty: all rows of the job
	// Rows is the number of rows that the advice is based on. Checks is the number of their checks.
	// FoundNothing counts the checks that asked for another check.
	Rows         int64 `json:"rows"`
	Checks       int64 `json:"checks"`        // of these rows
	FoundNothing int64 `json:"found_nothing"` // checks that asked for another check
	// HalfBy is the age by which half of the rows were finished, and MostBy the age by which 90 % were.
	// Nil: history has no such age.
	HalfBy *duration.Text `json:"half_by"`
	// the age by which 90 % of the rows were finished; null: history has no such age
	MostBy *duration.Text `json:"most_by"`
	// Past is what was done. Halved needs at most half the checks. Fixed needs no more than Halved,
	// at a fixed interval after the first check of Past. Halved and Fixed are nil if there is
	// nothing to halve. Fixed is also nil if every interval needs more checks.
	Past   Plan  `json:"past"`
	Halved *Plan `json:"halved"` // at most half the checks of Past; null: there is nothing to halve
	Fixed  *Plan `json:"fixed"`  // at most the checks of Halved, at a fixed interval; null: every interval needs more
	// Points are the parts of rows that were still open, from 1 to 0, and their ages. Empty if
	// there is too little history.
	Points []Point `json:"points"`
}

// Point is the part of rows that is open at an age.
type Point struct {
	Age  duration.Text `json:"age"`  // since the row was enqueued
	Open float64       `json:"open"` // the part of the rows that is still open, from 1 to 0
}

// Plan says when rows are checked, and the result.
type Plan struct {
	First  duration.Text   `json:"first"`  // after a row was enqueued
	Next   []duration.Text `json:"next"`   // after the previous check; the last is repeated. Empty: unknown
	Checks float64         `json:"checks"` // per row, on average
	Delay  duration.Text   `json:"delay"`  // from when a row was finished to the check that found it so, on average
}

// At returns the first age in history at which at most the part open is open. It returns nil if
// history has none.
func (a *Advice) At(open float64) *duration.Text {
	for i, p := range a.Points {
		if p.Open > open {
			continue
		}
		if i == 0 || p.Open == a.Points[i-1].Open {
			return &p.Age
		}
		before := a.Points[i-1]
		return new(p.Age - duration.Text(float64(p.Age-before.Age)*(open-p.Open)/(before.Open-p.Open)))
	}
	return nil
}

// Advise returns advice about the jobs that have history, sorted by name, each followed by its
// classes. It also returns how many rows of history it read. width is the width of the slots.
func Advise(
	ctx context.Context, db pgsql.Pool, schema pgsql.Schema, q Options, width time.Duration,
) (list []Advice, taken int64, err error) {
	err = pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) (err error) {
		list, taken, err = InTx(ctx, tx, schema, q, width)
		return err
	})
	return list, taken, err
}

// InTx is Advise in a transaction. It changes settings of the transaction.
func InTx(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, q Options, width time.Duration,
) (list []Advice, taken int64, err error) {
	var names, by []string
	if q.Job != "" {
		names, by = []string{q.Job}, []string{q.By}
	}
	rows, taken, err := read(ctx, tx, schema, names, by, q.Bounds)
	if err != nil {
		return nil, 0, fmt.Errorf("advise: %w", err)
	}
	jobs := group(rows)
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		for _, c := range curves(job, jobs[job]) {
			list = append(list, advise(c, ofClass(jobs[job], c.Class), width.Seconds()))
		}
	}
	return list, taken, nil
}

func ofClass(rows []row, class string) []row {
	if class == "" {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.class != class })
}

func advise(c *Curve, rows []row, width float64) Advice {
	a := Advice{
		Job: c.Job, Class: c.Class, Rows: int64(len(rows)), Past: Plan{Next: []duration.Text{}}, Points: []Point{},
	}
	var waited []int64
	finished, cancelled := 0.0, 0.0
	for _, r := range rows {
		if r.finished.Valid {
			finished++
		}
		if r.cancelled() {
			cancelled++
		}
		a.Checks += r.checks
		a.FoundNothing += r.vain
		waited = append(waited, max(0, r.waited))
	}
	slices.Sort(waited)
	ahead := float64(waited[len(waited)/2])
	if a.Checks > 0 {
		a.Past.Checks = float64(a.Checks) / float64(a.Rows)
	}
	a.Past.First = seconds(ahead)
	if len(c.Ages) == 0 {
		return a
	}
	a.Points = points(c, ahead)
	a.HalfBy, a.MostBy = a.At(0.5), a.At(0.1)
	p := planner{c, cancelled / finished, width, ahead} // of which there are MinRows at least
	a.Past.Delay = p.delays(rows)
	if looks := p.halve(a.Past.Checks / 2); looks != nil {
		a.Halved = p.plan(looks)
		if looks := p.fixed(a.Halved.Checks); looks != nil {
			a.Fixed = p.plan(looks)
		}
	}
	return a
}

// points returns the points of a curve from age 0 on. It leaves out points that differ from the
// last one by less than a thousandth. It keeps the end of such a plateau, because the curve falls
// from there.
func points(c *Curve, ahead float64) []Point {
	list := []Point{}
	var skipped *Point // the end of a plateau
	for i, age := range c.Ages {
		p := Point{seconds(float64(age) + ahead), 1 - c.Finished[i]}
		switch {
		case float64(age)+ahead < 0:
			continue
		case len(list) > 0 && list[len(list)-1].Open-p.Open < 0.001:
			skipped = &p
			continue
		case skipped != nil:
			list = append(list, *skipped)
			skipped = nil
		}
		list = append(list, p)
	}
	return list
}

// seconds returns a duration in whole seconds. It returns the longest duration for more, such as
// for a row that was due in the year 9999.
func seconds(s float64) duration.Text {
	const longest = float64(math.MaxInt64 / time.Second)
	return duration.Text(min(max(s, -longest), longest)) * duration.Text(time.Second)
}

// OpenAt returns the part of rows that is open at an age.
func (a *Advice) OpenAt(at time.Duration) float64 {
	age := duration.Text(at)
	for i, p := range a.Points {
		if p.Age < age {
			continue
		}
		if p.Age == age {
			return p.Open
		}
		if i == 0 {
			return 1
		}
		before := a.Points[i-1]
		return before.Open - (before.Open-p.Open)*float64(age-before.Age)/float64(p.Age-before.Age)
	}
	if len(a.Points) == 0 {
		return 1
	}
	return a.Points[len(a.Points)-1].Open
}
