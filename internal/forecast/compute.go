package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Compute returns a forecast of the coming slots.
func Compute(ctx context.Context, cfg Config) (Forecast, error) {
	if pg.Sqlx(cfg.DB) == nil {
		return Forecast{}, errors.New("forecast.Config: DB must be set")
	}
	cfg.For, cfg.Sample = cmp.Or(cfg.For, defaultFor), cmp.Or(cfg.Sample, defaultSample)
	if cfg.For < 0 || cfg.Sample < 0 {
		return Forecast{}, errors.New("forecast.Config: For and Sample must not be negative")
	}
	if err := cfg.WhatIf.Validate(); err != nil {
		return Forecast{}, fmt.Errorf("forecast.Config: WhatIf: %w", err)
	}
	grid, err := grid.New(cmp.Or(cfg.WhatIf.Width, time.Second))
	if err != nil {
		return Forecast{}, err
	}
	r, err := cfg.read(ctx)
	if err != nil {
		return Forecast{}, fmt.Errorf("read the forecast: %w", err)
	}
	if cfg.WhatIf.Width == 0 {
		grid = r.grid
	}
	return r.forecast(cfg, grid), nil
}

// reader returns a reader with the settings of the database.
func (cfg Config) reader(ctx context.Context) (*reader, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	setting, err := pgsql.ReadSetting(ctx, cfg.DB, schema)
	if err != nil {
		return nil, err
	}
	now := setting.Now
	if cfg.Now != nil {
		now = cfg.Now
	}
	return &reader{
		schema: schema, ledger: ledger.Of(cfg.DB, schema, setting, now),
		grid: setting.Grid, since: setting.Since, now: now().UTC(), sample: int64(cfg.Sample),
		registry: cfg.Registry, slas: map[string]time.Duration{},
	}, nil
}

// read reads the data of a forecast.
func (cfg Config) read(ctx context.Context) (*reader, error) {
	r, err := cfg.reader(ctx)
	if err != nil {
		return nil, err
	}
	r.from = r.grid.Next(r.now)
	r.to = r.grid.Next(r.now.Add(cfg.For))
	if most := r.from.Add(MaxSlots * min(r.grid.Width(), cmp.Or(cfg.WhatIf.Width, r.grid.Width()))); r.to.After(most) {
		r.to, r.cut = r.grid.Ceil(most), true
	}
	err = pgsql.ReadTx(ctx, cfg.DB, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "set local jit = off"); err != nil { // compilation would take longer than it saves
			return err
		}
		if r.waiting, err = r.readSlots(ctx, tx); err != nil {
			return err
		}
		if err := r.readJobs(ctx, tx); err != nil {
			return err
		}
		list, err := r.readLedger(ctx, tx, r.ranges())
		if err != nil {
			return err
		}
		r.past = newPast(list, r.grid, r.since)
		r.seasons = r.past.seasonalities()
		histories, err := r.readHistories(ctx, tx)
		if err != nil {
			return err
		}
		r.curves = curvesOf(histories)
		if r.coming, err = r.readSchedules(ctx, tx); err != nil {
			return err
		}
		return r.readOverdue(ctx, tx)
	})
	return r, err
}

// load counts the rows of a job in a slot. Parts of rows count, too.
type load struct {
	waiting, expected float64
	paused, unserved  bool
}

// jobsOf returns the jobs of a slot, sorted by name.
func jobsOf(loads map[string]load) []Job {
	list := make([]Job, 0, len(loads))
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		l := loads[name]
		j := Job{
			JobExec: name, Waiting: int64(math.Round(l.waiting)), Expected: int64(math.Round(l.expected)),
			Paused: l.paused, Unserved: l.unserved,
		}
		if j.Waiting > 0 || j.Expected > 0 {
			list = append(list, j)
		}
	}
	return list
}

// forecast computes a forecast from what was read, for slots on a grid.
func (r *reader) forecast(cfg Config, g grid.Grid) Forecast {
	f := Forecast{
		Grid: g, Now: r.now, Width: duration.Text(g.Width()), From: r.from, To: r.to, Slots: []Slot{},
		Notes: append([]string{}, r.notes...),
	}
	for slot := range r.grid.Between(r.from, r.to) {
		f.Slots = append(f.Slots, Slot{Slot: slot, Jobs: jobsOf(r.expect(slot))})
	}
	f.Slots = regrid(f.Slots, r.grid, g, func(job string) float64 { return r.curve(job).exact() })
	f.Slots = f.Slots[:min(len(f.Slots), MaxSlots)]
	if len(f.Slots) > 0 {
		f.From, f.To = f.Slots[0].Slot, g.Next(f.Slots[len(f.Slots)-1].Slot)
	}
	if r.cut {
		f.Notes = append(f.Notes, fmt.Sprintf("It ends at %s: more than %d slots, of %s here, are not looked at.",
			spoken.Instant(f.To), MaxSlots, spoken.Exact(g.Width())))
	}
	c := learn(r.past)
	by := cfg.WhatIf.capacity(c.capacity)
	for i := range f.Slots {
		f.Slots[i].time(c, by)
	}
	f.Overdue, f.OverdueAtLeast, f.OverdueTakes = r.catchUp(c, by)
	f.Runners, f.Workers, f.Learned = int(math.Round(by.runners)), int(math.Round(by.workers)), c.learned
	if c.learned == 0 {
		f.Notes = append(f.Notes, "No slot of the past tells how long rows take: the times are assumed.")
	}
	if r.past.short(r.now) {
		f.Notes = append(f.Notes,
			"The ledger has less than two days of runs: what is usual at a time of day is not known yet.")
	}
	f.Findings = (&judge{
		forecast: &f, cost: c, capacity: by, slas: r.slas, deadlines: r.deadlines,
		registry: cfg.Registry,
	}).findings()
	return f
}

// expect returns the expected rows of each job in a slot.
func (r *reader) expect(slot time.Time) map[string]load {
	loads := map[string]load{}
	for name, l := range r.waiting[slot.Unix()] {
		loads[name] = l
	}
	for _, name := range r.names() {
		l, ahead := loads[name], slot.Sub(r.now)
		switch {
		case r.removed[name]:
			l.expected = l.waiting
		case name == schedule.JobExec:
			begun, c := r.begun().Unix(), r.coming[slot.Unix()]
			// the run of that slot has not moved them on yet
			left := min(1, ratio(r.waiting[begun][name].waiting, r.coming[begun].all, 0))
			l.expected = l.waiting + c.later + left*c.next
		default:
			l.expected = r.past.rows(name, r.seasons[name], slot, r.curve(name).rates(slot, ahead), l.waiting)
		}
		l.paused, l.unserved = r.state(name)
		loads[name] = l
	}
	return loads
}

// time sets the number of rows that will be run in a slot, and how long that takes.
func (s *Slot) time(c cost, by capacity) {
	rows := map[string]float64{}
	s.Rows, s.Waiting = 0, 0
	for _, j := range s.Jobs {
		if j.Runs() {
			rows[j.JobExec] = float64(j.Expected)
			s.Rows += j.Expected
			s.Waiting += j.Waiting
		}
	}
	s.Begins, s.Took = duration.Text(c.delay), duration.Text(seconds(c.took(rows, by)))
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Runs() {
			j.Done = s.Begins + duration.Text(seconds(c.done(rows, j.JobExec, by)))
		}
	}
}

// catchUp returns the number of overdue rows that the next catch-up runs, and how long it takes.
func (r *reader) catchUp(c cost, by capacity) (n int64, atLeast bool, took duration.Text) {
	rows := map[string]float64{}
	var sum ledger.Count
	for name, count := range r.overdue {
		if paused, unserved := r.state(name); !paused && !unserved {
			rows[name] = float64(count.N)
			sum = sum.Plus(count)
		}
	}
	if sum.N > 0 {
		took = duration.Text(seconds(c.took(rows, by)))
	}
	return sum.N, sum.AtLeast || r.moreOverdue, took
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}
