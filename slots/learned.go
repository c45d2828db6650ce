package slots

import (
	"context"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/learn"
)

// learners are the jobs of the slot that learn.
func (r *run) learners() (list []*jobs.Definition) {
	for _, job := range r.known {
		if job.def.Learns() {
			list = append(list, job.def)
		}
	}
	return list
}

// openBook reads the curves of the jobs that learn, once for the run, where the slot has rows of one. Without them rows are checked
// when their functions have asked for it.
func (r *run) openBook() {
	list := r.learners()
	if len(list) == 0 {
		return
	}
	ctx, end := context.WithTimeout(r.work, r.cfg.Lease/2) // whoever has locked them does not hold up the slot
	defer end()
	book, err := learn.Open(ctx, r.cfg.DB, r.schema, list)
	if err != nil {
		r.cfg.Logger.WarnContext(r.work, "no checks are chosen by what was learned", "error", err)
		return
	}
	r.book = book
}

// learn makes the curves of jobs that had rows in the slot anew, where they are old. What goes wrong in it is no error of the run.
func (r *run) learn(ctx context.Context) {
	now := r.Now()
	list := r.book.Stale(r.learners(), now)
	if r.book == nil || len(list) == 0 || ctx.Err() != nil {
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
