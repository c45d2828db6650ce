package board

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/advise"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	maxJobSlots  = 200
	maxJobErrors = 20
	// maxLookback is how many of the last slots a job's page covers.
	maxLookback = 2880
)

// Job returns one job, or ErrNotFound.
func (b *Board) Job(ctx context.Context, name string, acted int64) (Job, error) {
	if err := action.CheckText("job_exec", name); err != nil {
		return Job{}, err
	}
	v, err := read(ctx, b.source, "job "+name, acted, pageAge, func(ctx context.Context, r *reader) (v Job, err error) {
		if v.JobLine, err = b.readJob(ctx, r, name); err != nil {
			return v, err
		}
		if err := r.slotIndexOnly(ctx); err != nil {
			return v, err
		}
		done, err := r.ledger.In(r).Jobs(ctx, r.now().Add(-day))
		if err != nil {
			return v, err
		}
		if i := slices.IndexFunc(done, func(s ledger.JobStatus) bool { return s.JobExec == name }); i >= 0 {
			v.JobStatus = done[i]
		}
		current := r.grid().Floor(r.now())
		if err := v.readSlots(ctx, r, r.grid().Add(current, 1-maxLookback), r.grid().Next(current)); err != nil {
			return v, err
		}
		v.Ahead, err = readAhead(ctx, r, name, current)
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

// readSlots reads the slots in [from, to).
func (j *Job) readSlots(ctx context.Context, r *reader, from, to time.Time) error {
	type line struct {
		JobSlot
		error string
	}
	list, err := rows(ctx, r, pg.BoardJob, []any{j.JobExec, from, to}, func(row *sql.Rows, s *line) error {
		var took sql.NullInt64
		err := row.Scan(&s.Slot, &s.Planned, &s.Finished, &s.Rescheduled, &s.Failed, &s.Late,
			(*int64)(&s.Spent), &s.error, &took)
		s.Slot, s.Spent, s.Took = s.Slot.UTC(), micros(int64(s.Spent)), micros(took.Int64)
		s.Rate = perSecond(s.Finished+s.Rescheduled+s.Failed, s.Took)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the slots of job %s: %w", j.JobExec, err)
	}
	j.Slots, j.Days, j.Errors = []JobSlot{}, []JobDay{}, []JobError{}
	for _, s := range list {
		if len(j.Slots) < maxJobSlots {
			j.Slots = append(j.Slots, s.JobSlot)
		}
		if s.error != "" && len(j.Errors) < maxJobErrors {
			j.Errors = append(j.Errors, JobError{s.Slot, s.Failed, s.error})
		}
		name := s.Slot.Format(time.DateOnly)
		if n := len(j.Days); n == 0 || j.Days[n-1].Day != name {
			j.Days = append(j.Days, JobDay{Day: name})
		}
		j.Days[len(j.Days)-1].add(s.Became)
	}
	return nil
}

func (d *JobDay) add(s Became) {
	d.Slots++
	d.Finished += s.Finished
	d.Rescheduled += s.Rescheduled
	d.Failed += s.Failed
	d.Late += s.Late
	d.Spent += s.Spent
}

// readAhead reads the slots with waiting rows of a job, beginning with from.
func readAhead(ctx context.Context, r *reader, job string, from time.Time) ([]Ahead, error) {
	list, err := rows(ctx, r, pg.BoardAhead, []any{job, from}, func(row *sql.Rows, a *Ahead) error {
		err := row.Scan(&a.Slot, &a.Rows, &a.AtLeast)
		a.Slot = a.Slot.UTC()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the slots with waiting rows of job %s: %w", job, err)
	}
	return list, nil
}
