package slots_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// seen records what the checks of a trial have seen.
type seen struct {
	trial *trial

	mu      sync.Mutex
	starts  map[int64]int     // of each row
	broken  map[int64]bool    // rows whose function returned the error of a statement of its own
	late    map[int64]bool    // rows that were caught up on
	running map[int64]running // rows that are being checked
	busy    map[string]int    // checks by process and job
	began   int               // checks
	resumed bool              // a job was paused: what is left of it is caught up on
	hooks   map[int]func()    // by the number of the check that begins
}

type running struct {
	process *process
	ctx     context.Context
	job     string
}

func newSeen() *seen {
	return &seen{
		starts: map[int64]int{}, broken: map[int64]bool{}, late: map[int64]bool{}, running: map[int64]running{},
		busy: map[string]int{}, hooks: map[int]func(){},
	}
}

// resumes notes that a job is paused, and will be resumed when the slot is done.
func (j *seen) resumes() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resumed = true
}

// onStart has something happen when the n-th check of the trial begins.
func (j *seen) onStart(n int, do func()) { j.hooks[n] = do }

var errDead = errors.New("the process is dead")

// start notes that a process begins to check rows. ended is to be called after.
func (p *process) start(ctx context.Context, rows ...jobs.FutureJob) (ended func(), err error) {
	if !p.alive() {
		return nil, errDead
	}
	c, j := p.trial, p.trial.seen
	now := c.clock.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range rows {
		if r.Slot.After(now) || !r.NextCheckAt.Equal(r.Slot) || r.Lateness < 0 {
			c.complain("%s began to check row %d (%s) of slot %s, as one of slot %s, at %s", p.name, r.ID, r.Key(), r.NextCheckAt, r.Slot, now)
		}
		// One that stood still notices a little later that its lease has ended.
		if other, ok := j.running[r.ID]; ok && !other.process.dead() && other.ctx.Err() == nil && !c.hazard.overtaken {
			c.complain("%s began to check row %d (%s), which %s was checking", p.name, r.ID, r.Key(), other.process.name)
		}
		j.running[r.ID] = running{p, ctx, r.JobExec}
		j.starts[r.ID]++
		j.late[r.ID] = j.late[r.ID] || r.CaughtUp
	}
	if n := j.atOnce(fleet); n > atMost && !c.hazard.overtaken {
		c.complain("%d checks are done at once of a job of which all runners together may do %d", n, atMost)
	}
	place := p.name + " " + rows[0].JobExec
	if j.busy[place]++; rows[0].JobExec == limited && j.busy[place] > 1 {
		c.complain("%s did %d checks at once of a job that is limited to one", p.name, j.busy[place])
	}
	j.began++
	if hook := j.hooks[j.began]; hook != nil {
		hook()
	}
	return func() {
		p.alive()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.busy[place]--
		for _, r := range rows {
			if j.running[r.ID].process == p {
				delete(j.running, r.ID)
			}
		}
	}, nil
}

// kindOf names the result of the check of a row, by its key.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, " ")
	return kind
}

var errToldTo = errors.New("told to fail")

// behave returns the result of a check, by the first word of the entity_key.
func behave(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
	switch kindOf(job.EntityKey) {
	case "finish":
		return nil, nil
	case "move", "last":
		return new(grid.Default.Next(job.Slot)), nil
	case "fail", "giveup":
		return nil, errToldTo
	case "panic":
		panic(errToldTo)
	case "slow":
		select {
		case <-time.After(trialLease * 3 / 2): // four heartbeats
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("no such key: %s", job.EntityKey)
}

// check, checkTx, batch and batchTx are the functions of jobs, one for each shape.
func (p *process) check(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
	ended, err := p.start(ctx, job)
	if err != nil {
		return nil, err
	}
	defer ended()
	return behave(ctx, job)
}

func (p *process) checkTx(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	ended, err := p.start(ctx, job)
	if err != nil {
		return nil, err
	}
	defer ended()
	if err := p.affect(ctx, tx, job); err != nil {
		return nil, err
	}
	return behave(ctx, job)
}

func (p *process) batch(ctx context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
	ended, err := p.start(ctx, rows...)
	if err != nil {
		return nil, err
	}
	defer ended()
	results := make([]jobs.Result, len(rows))
	for i, r := range rows {
		results[i].Next, results[i].Err = behave(ctx, r)
	}
	return results, nil
}

// atOnce is how many checks of a job are done by the living who know nothing of a lost lease.
func (j *seen) atOnce(job string) (n int) {
	for _, r := range j.running {
		if r.job == job && !r.process.dead() && r.ctx.Err() == nil {
			n++
		}
	}
	return n
}

// asks has checks that return without an error ask for another one each.
func asks(results []jobs.Result, rows []jobs.FutureJob) []jobs.Result {
	for i := range results {
		if results[i].Err == nil {
			results[i].Enqueue = []jobs.Request{{JobExec: "child", EntityName: "parent", EntityKey: fmt.Sprint(rows[i].ID), Anonymous: true}}
			results[i].Enqueue[0].CheckAt = slot(100)
		}
	}
	return results
}

func (p *process) asking(ctx context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
	results, err := p.batch(ctx, rows)
	return asks(results, rows), err
}

func (p *process) askingTx(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	results, err := p.batchTx(ctx, tx, rows)
	return asks(results, rows), err
}

func (p *process) batchTx(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	ended, err := p.start(ctx, rows...)
	if err != nil {
		return nil, err
	}
	defer ended()
	if err := p.affect(ctx, tx, rows...); err != nil {
		return nil, err
	}
	results := make([]jobs.Result, len(rows))
	for i, r := range rows {
		results[i].Next, results[i].Err = behave(ctx, r)
	}
	return results, nil
}

// group is batchTx for rows that must be those of a group, all of them.
func (p *process) group(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	var missing []int64
	for _, r := range p.trial.rows {
		due := jobs.FutureJob{EntityName: r.entity, EntityKey: r.key, GroupKey: r.group}
		if groupOf(due) == groupOf(rows[0]) && !slices.ContainsFunc(rows, func(j jobs.FutureJob) bool { return j.ID == r.id }) {
			missing = append(missing, r.id)
		}
	}
	for _, r := range rows {
		if groupOf(r) != groupOf(rows[0]) {
			p.trial.complain("%s got rows of the groups %q and %q together", p.name, groupOf(rows[0]), groupOf(r))
		}
	}
	if len(missing) > 0 && p.trial.hazard.actor == nil {
		p.trial.complain("%s got the group %q without its rows %v", p.name, groupOf(rows[0]), missing)
	}
	return p.batchTx(ctx, tx, rows)
}

// affect leaves an effect of the check of each row in its transaction.
func (p *process) affect(ctx context.Context, tx *sqlx.Tx, rows ...jobs.FutureJob) error {
	ids, checks, errs := make([]int64, len(rows)), make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		ids[i], checks[i], errs[i] = r.ID, int64(r.CheckCount), int64(r.ErrorCount)
	}
	_, err := tx.ExecContext(ctx, `insert into effect select i, c, e, $4 from unnest($1::bigint[], $2::int[], $3::int[]) as u (i, c, e)`,
		ids, checks, errs, p.name)
	if err != nil {
		j := p.trial.seen
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, r := range rows {
			j.broken[r.ID] = true
		}
	}
	return err
}
