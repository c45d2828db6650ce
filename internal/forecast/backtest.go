package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// BacktestResult says how good forecasts of the past would have been.
type BacktestResult struct {
	From, To time.Time // the slots, up to but not including To
	Lead     time.Duration
	Rows     Errors     // of all rows of a slot
	Took     Errors     // of the run time of a slot
	Jobs     []JobError // sorted by name
	Slots    []BacktestSlot
	Notes    []string // what limits the result
}

// JobError says how good the forecasts of a job's rows would have been.
type JobError struct {
	JobExec string
	Errors
}

// BacktestSlot holds the forecast for a slot, and what happened. Took is 0 if it is unknown.
type BacktestSlot struct {
	Slot               time.Time
	Rows, ExpectedRows int64
	Took, ExpectedTook time.Duration
	Learned            int // slots that the run time was learned from
}

// Errors holds the relative errors of forecasts, over slots in which something happened. A relative
// error is the absolute difference between forecast and actual, divided by the actual.
type Errors struct {
	Slots int
	// Median and P90 are 0 if Slots is.
	Median, P90 float64
	// Sum is the sum of all absolute errors, divided by the sum of all actual values: large slots
	// count more.
	Sum float64
}

// collected holds errors of one kind while a backtest collects them.
type collected struct {
	parts       []float64
	off, happen float64
}

func (c *collected) add(told, happened float64) {
	c.off += math.Abs(told - happened)
	c.happen += happened
	if happened > 0 {
		c.parts = append(c.parts, math.Abs(told-happened)/happened)
	}
}

func (c *collected) errors() Errors {
	n := len(c.parts)
	if n == 0 {
		return Errors{}
	}
	slices.Sort(c.parts)
	return Errors{n, c.parts[n/2], c.parts[min(n*9/10, n-1)], c.off / c.happen}
}

// backtestSample is how many times as many blocks a backtest reads as a forecast.
const backtestSample = 10

// Backtest forecasts the slots of the last back, each lead before it, from what was known then. It
// compares the forecasts with what happened. The first slot is one that could be forecast on the
// second day of the ledger. History, and the timelines of waiting rows, tell which rows waited
// then.
func Backtest(ctx context.Context, cfg Config, back, lead time.Duration) (BacktestResult, error) {
	cfg.Sample = backtestSample * cmp.Or(cfg.Sample, defaultSample)
	if back <= 0 || lead < 0 {
		return BacktestResult{}, fmt.Errorf("backtest: %s back, %s ahead: "+
			"the first must be positive, and the second not negative", back, lead)
	}
	r, err := cfg.reader(ctx)
	if err != nil {
		return BacktestResult{}, fmt.Errorf("backtest: %w", err)
	}
	r.from, r.to = r.grid.Ceil(r.now.Add(-back)), r.grid.Floor(r.now)
	var histories []rowHistory
	err = pgsql.ReadTx(ctx, cfg.DB, func(tx *sqlx.Tx) error {
		begin := r.from.Add(-lookBack * day)
		if most := r.grid.Add(r.to, -mostTested); begin.Before(most) {
			begin = most
			r.notes = append(r.notes, fmt.Sprintf("It knows the past from %s on: it reads at most %d slots.",
				spoken.Instant(begin), mostTested))
		}
		list, err := r.readLedger(ctx, tx, [][2]time.Time{{begin, r.to}})
		if err != nil {
			return err
		}
		r.past = newPast(list, r.grid, r.since)
		if histories, err = r.readHistories(ctx, tx, begin, r.now); err != nil {
			return err
		}
		r.coming, err = r.readSchedules(ctx, tx, lead)
		return err
	})
	if err != nil {
		return BacktestResult{}, fmt.Errorf("backtest: %w", err)
	}
	return r.backtest(stagesOf(histories, lead), lead), nil
}

// mostTested bounds the slots of the past that a backtest reads.
const mostTested = 30_000

// staged holds the stage of a sample of a job's rows in a slot of the past.
type staged struct {
	slot time.Time
	stage
}

// stagesOf returns the stages of each job, sorted by slot.
func stagesOf(histories []rowHistory, lead time.Duration) map[string][]staged {
	stages := map[string][]staged{}
	for job, c := range curvesOf(histories) {
		stays := slices.Concat(c[:]...)
		slices.SortFunc(stays, func(a, b stay) int { return a.slot.Compare(b.slot) })
		var list []staged
		for _, v := range stays {
			if len(list) == 0 || !list[len(list)-1].slot.Equal(v.slot) {
				list = append(list, staged{slot: v.slot})
			}
			list[len(list)-1].add(v.stage(lead), 1)
		}
		stages[job] = list
	}
	return stages
}

// window is a moving sum of the stages that were over at an instant, over lookBack days.
type window struct {
	list       []staged
	first, end int
	all        stage
	byHour     [24]stage
}

func (w *window) move(now time.Time) {
	for ; w.end < len(w.list) && w.list[w.end].slot.Before(now); w.end++ {
		w.add(w.list[w.end], 1)
	}
	for ; w.first < w.end && now.Sub(w.list[w.first].slot) > lookBack*day; w.first++ {
		w.add(w.list[w.first], -1)
	}
}

func (w *window) add(s staged, sign float64) {
	w.all.add(s.stage, sign)
	w.byHour[s.slot.UTC().Hour()].add(s.stage, sign)
}

// rates returns the rates of a slot, as far as they were known. Timelines of rows that never end
// do not go back far. If they tell nothing from then, later stages count.
func (w *window) rates(slot time.Time) rates {
	if w.all.run+w.all.waited > 0 {
		return ratesOf(w.byHour[slot.Hour()], w.all)
	}
	later := window{list: w.list}
	later.move(slot.Add(lookBack * day))
	return ratesOf(later.byHour[slot.Hour()], later.all)
}

// at returns the stage of a slot.
func (w *window) at(slot time.Time) stage {
	i, found := slices.BinarySearchFunc(w.list, slot, func(s staged, slot time.Time) int {
		return s.slot.Compare(slot)
	})
	if !found {
		return stage{}
	}
	return w.list[i].stage
}

func (r *reader) backtest(stages map[string][]staged, lead time.Duration) BacktestResult {
	t := BacktestResult{From: r.from, To: r.to, Lead: lead, Notes: r.notes}
	if !t.From.Before(t.To) {
		t.Notes = append(t.Notes, "No slot is in that time.")
		return t
	}
	if len(r.past.list) == 0 {
		t.Notes = append(t.Notes, "The ledger has no slot that is done.")
		return t
	}
	first := r.past.list[0].slot
	if second := r.grid.Ceil(first.Add(day + lead)); t.From.Before(second) {
		t.From = second
	}
	if !t.From.Before(t.To) {
		t.Notes = append(t.Notes,
			fmt.Sprintf("There is nothing to compare yet: "+
				"the ledger begins at %s, and the first slot that can be judged is that of %s.", clock(first), clock(t.From)))
		return t
	}
	windows := map[string]*window{}
	for job, list := range stages {
		windows[job] = &window{list: list}
	}
	jobs := map[string]*collected{}
	var rows, took collected
	var c cost
	var learned time.Time
	for _, slot := range r.past.list {
		if slot.slot.Before(t.From) {
			continue
		}
		now := slot.slot.Add(-lead)
		known := r.past.before(now)
		if hour := now.Truncate(time.Hour); !hour.Equal(learned) {
			c, learned = learn(known), hour
			r.seasons = known.seasonalities()
		}
		expected := map[string]float64{}
		s := BacktestSlot{Slot: slot.slot, Learned: c.learned}
		told, happened := 0.0, 0.0
		for job := range r.jobs(slot, windows) {
			n, ok := r.would(known, windows[job], job, slot, now)
			if !ok {
				continue
			}
			expected[job] = n
			if jobs[job] == nil {
				jobs[job] = &collected{}
			}
			jobs[job].add(n, slot.rows[job])
			told, happened = told+n, happened+slot.rows[job]
		}
		rows.add(told, happened)
		s.Rows, s.ExpectedRows = int64(happened), int64(math.Round(told))
		if slot.kind == slots.KindRun && slot.runners > 0 && c.learned > 0 && happened > 0 {
			s.Took, s.ExpectedTook = slot.took, seconds(c.took(expected, c.capacity))
			took.add(s.ExpectedTook.Seconds(), s.Took.Seconds())
		}
		t.Slots = append(t.Slots, s)
	}
	t.Rows, t.Took = rows.errors(), took.errors()
	for job, c := range jobs {
		if e := c.errors(); e.Slots > 0 {
			t.Jobs = append(t.Jobs, JobError{job, e})
		}
	}
	slices.SortFunc(t.Jobs, func(a, b JobError) int { return cmp.Compare(a.JobExec, b.JobExec) })
	return t
}

// jobs returns the jobs that had rows in a slot, or might have had some.
func (r *reader) jobs(slot *ran, windows map[string]*window) map[string]bool {
	names := map[string]bool{}
	for job := range slot.rows {
		names[job] = true
	}
	for job := range windows {
		names[job] = true
	}
	if r.coming[slot.slot.Unix()].all > 0 {
		names[schedule.JobExec] = true
	}
	return names
}

// would returns the forecast of a job's rows for a slot. It returns false if it cannot know: the
// slot had rows, and no remaining row says when they came.
func (r *reader) would(known past, w *window, job string, slot *ran, now time.Time) (float64, bool) {
	if job == schedule.JobExec {
		return r.coming[slot.slot.Unix()].all, true
	}
	if w == nil {
		w = &window{}
	}
	w.move(now)
	s := w.at(slot.slot)
	if s.run == 0 && slot.rows[job] > 0 {
		return 0, false
	}
	each := 1.0 // rows that one row of the sample stands for
	if s.run > 0 {
		each = slot.rows[job] / s.run
	}
	return known.rows(job, r.seasons[job], slot.slot, w.rates(slot.slot), each*s.waited), true
}
