package board

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/advise"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	// AheadSlots is how many slots the rows that wait for a job are counted in; see board_ahead.sql.
	AheadSlots   = 96
	maxJobErrors = 20
	// maxLookback is how many slots before a range are searched for a job that has none in it.
	maxLookback = 2880
)

// JobIn names a job, and a range of its slots.
type JobIn struct {
	Name string
	Range
}

// Job returns one job with its slots in a range, or ErrNotFound.
func (b *Board) Job(ctx context.Context, of JobIn, acted int64) (Job, error) {
	name, in := of.Name, of.Range
	if err := cmp.Or(action.CheckText("job_exec", name), in.check()); err != nil {
		return Job{}, err
	}
	key := keyOf("job", name, in.key())
	v, err := read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v Job, err error) {
		if v.JobLine, err = b.readJob(ctx, r, name); err != nil {
			return v, err
		}
		if err := r.slotIndexOnly(ctx); err != nil {
			return v, err
		}
		done, err := r.ledger.In(reserved.Caller{}, r).Jobs(ctx, r.now().Add(-day))
		if err != nil {
			return v, err
		}
		if i := slices.IndexFunc(done, func(s ledger.JobStatus) bool { return s.JobExec == name }); i >= 0 {
			v.JobStatus = done[i]
		}
		if err := v.readRange(ctx, r, in); err != nil {
			return v, err
		}
		v.Ahead, err = readAhead(ctx, r, name, r.grid().Floor(r.now()))
		return v, err
	})
	if err != nil {
		return v, err
	}
	o, err := b.Overview(ctx, acted)
	v.OverdueRows = view.NewOverdueRows(o.Due[name])
	v.State = StateOf(&v.JobStatus, v.Paused != nil, v.OverdueCount())
	return v, err
}

// readJob reads the job of a name, without the results of its checks, or returns ErrNotFound.
func (s *source) readJob(ctx context.Context, r *reader, name string) (JobLine, error) {
	lines, err := s.readJobs(ctx, r, jobNames{Names: []string{name}})
	if err != nil {
		return JobLine{}, err
	}
	if len(lines) == 0 {
		return JobLine{}, notFound("job " + name)
	}
	return lines[0], nil
}

const (
	// adviceAge is the maximum age of advice, and adviceRows how many rows it reads: advice costs
	// more than a page.
	adviceAge  = 10 * time.Minute
	adviceRows = 20_000
	adviceTime = 2 * time.Second
)

// Advice returns the advice from history on a job, or ErrNotFound.
func (b *Board) Advice(ctx context.Context, name string, acted int64) (JobAdvice, error) {
	if err := action.CheckText("job_exec", name); err != nil {
		return JobAdvice{}, err
	}
	return read(ctx, b.source, "advice "+name, acted, adviceAge,
		func(ctx context.Context, r *reader) (v JobAdvice, err error) {
			if _, err := b.readJob(ctx, r, name); err != nil {
				return v, err
			}
			q := advise.Options{Job: name, Bounds: advise.Bounds{Rows: adviceRows, PerJob: adviceRows, Time: adviceTime}}
			list, read, err := advise.InTx(ctx, r, r.schema, q, r.grid().Width())
			v.JobExec, v.Read, v.Advice = name, read, []string{}
			for i := range list {
				v.Advice = append(v.Advice, view.Advice(&list[i]))
			}
			return v, err
		})
}

// readRange reads what became of the rows of the job in a range.
func (j *Job) readRange(ctx context.Context, r *reader, in Range) error {
	is, err := in.resolve(r.grid(), r.now())
	if err != nil {
		return err
	}
	j.Width, j.From, j.To = duration.Text(r.grid().Width()), is.from, is.to
	if err := j.readCells(ctx, r, is); err != nil {
		return err
	}
	j.Errors, err = rows(ctx, r, pg.BoardJobErrors, []any{j.JobExec, is.from, is.to, maxJobErrors},
		func(row *sql.Rows, e *JobError) error {
			return row.Scan(pg.UTC(&e.Slot), &e.Failed, &e.Error)
		})
	if err != nil {
		return fmt.Errorf("read the errors of job %s: %w", j.JobExec, err)
	}
	if len(j.Cells) == 0 {
		_, err = rows(ctx, r, pg.BoardJobLast, []any{j.JobExec, r.grid().Add(r.grid().Floor(is.to), -maxLookback), is.to},
			func(row *sql.Rows, _ *struct{}) error { return row.Scan(pg.UTC(&j.LastSlot)) })
	}
	if err != nil {
		return fmt.Errorf("read the last slot of job %s: %w", j.JobExec, err)
	}
	return nil
}

// readCells reads the cells of a range that have rows of the job, and their sums by day.
func (j *Job) readCells(ctx context.Context, r *reader, is resolved) (err error) {
	args := []any{j.JobExec, is.from, is.to, int64(is.span / time.Second)}
	j.Cells, err = rows(ctx, r, pg.BoardJob, args, func(row *sql.Rows, c *JobCell) error {
		var worked duration.Text
		err := row.Scan(pg.UTC(&c.Slot), &c.Slots, &c.Planned, &c.Finished, &c.Rescheduled, &c.Failed, &c.Late,
			pg.Micros(&c.Spent), pg.Micros(&c.Took), pg.Micros(&worked))
		c.Span, c.Rate = duration.Text(is.span), perSecond(c.Checked(), worked)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the slots of job %s: %w", j.JobExec, err)
	}
	j.Days = []JobDay{}
	for _, c := range j.Cells {
		name := c.Slot.Format(time.DateOnly)
		if n := len(j.Days); n == 0 || j.Days[n-1].Day != name {
			j.Days = append(j.Days, JobDay{Day: name})
		}
		j.Days[len(j.Days)-1].add(c)
	}
	return nil
}

func (d *JobDay) add(s JobCell) {
	d.Slots += s.Slots
	d.Finished += s.Finished
	d.Rescheduled += s.Rescheduled
	d.Failed += s.Failed
	d.Late += s.Late
	d.Spent += s.Spent
}

// readAhead reads the slots with waiting rows of a job, beginning with from.
func readAhead(ctx context.Context, r *reader, job string, from time.Time) ([]Ahead, error) {
	list, err := rows(ctx, r, pg.BoardAhead, []any{job, from}, func(row *sql.Rows, a *Ahead) error {
		return row.Scan(pg.UTC(&a.Slot), &a.Rows, &a.AtLeast)
	})
	if err != nil {
		return nil, fmt.Errorf("read the slots with waiting rows of job %s: %w", job, err)
	}
	return list, nil
}
