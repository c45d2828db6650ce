package slots

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/learn"
)

// openBook reads the curves of the jobs that learn, once for the run, where the slot has rows of one. Without them rows are checked
// when their functions have asked for it.
func (r *run) openBook() {
	var names []string
	for _, job := range r.known {
		if job.def.Learns() {
			names = append(names, job.def.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	ctx, end := context.WithTimeout(r.work, r.cfg.Lease/2) // whoever has locked them does not hold up the slot
	defer end()
	book, err := learn.Open(ctx, r.cfg.DB, r.schema, names)
	if err != nil {
		r.cfg.Logger.WarnContext(r.work, "no checks are chosen by what was learned", "error", err)
		return
	}
	r.book = book
}

// learned has a row that asked for another check looked at earlier, where its curve says so; see jobs.Learned.
func (r *run) learned(d *jobs.Definition, m guard.Moment, row *jobs.FutureJob, v *guard.Verdict) {
	looks := d.MaxChecks/2 - row.CheckCount
	if v.Move != guard.MoveNext || looks < 1 {
		return
	}
	payload := row.Payload
	if v.Payload != nil {
		payload = v.Payload
	}
	class := learn.ClassOf(payload, d.LearnBy)
	curve := r.book.Of(d.Name, class)
	if curve == nil {
		return
	}
	first := row.FirstCheckAt()
	age := m.Grid.Floor(m.Latest()).Sub(first).Seconds()
	next := curve.Next(age, learn.Share(looks), d.LearnMin.Seconds(), d.LearnMax.Seconds())
	if next >= v.Next.Sub(first).Seconds() { // before it becomes a Duration, which a long maximum does not fit into
		return
	}
	slot := m.Grid.Ceil(first.Add(time.Duration(math.Ceil(next)) * time.Second))
	if !slot.Before(v.Next) {
		return
	}
	part := curve.Ended(age, slot.Sub(first).Seconds())
	text, _ := json.Marshal([]any{slot.Unix(), v.Next.Unix(), int(math.Round(100 * part)), curve.Class})
	v.Next, v.Learned = slot, string(text)
}

// learn makes the curves of jobs that had rows in the slot anew, where they are old. What goes wrong in it is no error of the run.
func (r *run) learn(ctx context.Context) {
	var list []*jobs.Definition
	for _, job := range r.known {
		if job.def.Learns() {
			list = append(list, job.def)
		}
	}
	now := r.Now()
	if list = r.book.Stale(list, now); r.book == nil || len(list) == 0 || ctx.Err() != nil {
		return
	}
	ctx, end := context.WithTimeout(ctx, 2*learn.DefaultTime) // where the server's own limit does not arrive
	defer end()
	_, read, err := learn.Refresh(ctx, r.cfg.DB, r.schema, list, now.Add(-learn.Every), now, learn.Bounds{})
	if err != nil {
		r.cfg.Logger.WarnContext(ctx, "nothing was learned from history; a later run will", "error", err)
		return
	}
	r.cfg.Logger.DebugContext(ctx, "learned from history", "jobs", len(list), "rows", read)
}
