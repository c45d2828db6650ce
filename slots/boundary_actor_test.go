package slots_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
)

// deed is an action of an owner of rows, with what its result promised.
type deed struct {
	ids  []int64 // of rows that are as their owner wants them
	kept func(now []place) error
}

// actor is an application. Its errors fail the trial: no application may suffer from a run.
type actor func(c *trial, target row) deed

// deeds are the actions on a row, and on a job, by its owner.
var deeds = map[string]actor{
	"cancel": func(c *trial, r row) deed {
		found, err := c.client.Cancel(context.Background(), jobs.OwnTx(c.db), r.natural())
		c.blame(err)
		return deed{[]int64{r.id}, wasCancelled(r, found)}
	},
	"two cancels in a transaction": func(c *trial, _ row) deed {
		two := []row{c.rows[c.committed-1], c.rows[0]} // against the order in which a run locks rows
		var found [2]bool
		ctx := context.Background()
		c.blame(inTxOf(ctx, c.db, func(tx *sqlx.Tx) (err error) {
			for i, r := range two {
				if found[i], err = c.client.Cancel(ctx, tx, r.natural()); err != nil || c.committed == 1 {
					return err
				}
			}
			return nil
		}))
		return deed{[]int64{two[0].id, two[1].id}, func(now []place) error {
			for i, r := range two[:min(2, c.committed)] {
				if err := wasCancelled(r, found[i])(now); err != nil {
					return err
				}
			}
			return nil
		}}
	},
	"reschedule": func(c *trial, r row) deed {
		at, found, err := c.client.Reschedule(context.Background(), jobs.OwnTx(c.db), r.natural(), slot(9))
		c.blame(err)
		return deed{[]int64{r.id}, func(now []place) error {
			switch p := placeOf(now, r.id); {
			case found && (p.outcome != "" || !p.slot.Equal(at)):
				return fmt.Errorf("it was rescheduled to %s, and is %+v", at, p)
			case !found && p.outcome == "":
				return fmt.Errorf("reschedule did not find it, and it is %+v", p)
			}
			return nil
		}}
	},
	"enqueue keep":      enqueues(jobs.Keep),
	"enqueue replace":   enqueues(jobs.Replace),
	"enqueue push back": enqueues(jobs.PushBack(0)),
	"pause": func(c *trial, r row) deed {
		c.seen.resumes()
		_, err := admin.New(c.client).Pause(context.Background(), c.db, r.job)
		c.blame(err)
		var paused time.Time
		c.blame(c.db.GetContext(context.Background(), &paused, `select clock_timestamp()`))
		return deed{nil, func([]place) error {
			var claims int
			err := c.testbed.admin.GetContext(context.Background(), &claims, `
				select count(*) from claim_event e join prescient.job j on j.job = any (e.jobs)
				where e.what <> 'left' and j.name = $1 and e.began > $2 and e.began < $3`, r.job, paused, c.resumed)
			if claims > 0 {
				return fmt.Errorf("%d times rows of job %s were claimed while it was paused", claims, r.job)
			}
			return err
		}}
	},
	"set width": func(c *trial, _ row) deed {
		five, err := grid.New(5 * time.Minute)
		c.blame(err)
		l, err := ledger.New(context.Background(), c.db, "", c.clock.Now)
		c.blame(err)
		if _, err := l.SetWidth(context.Background(), five); pq.As(err, pqerror.ObjectInUse) == nil {
			c.blame(err)
		}
		return deed{}
	},
	"delete schedule": func(c *trial, r row) deed {
		c.blame(c.store().Delete(context.Background(), c.db, r.key, schedule.AnyVersion))
		return deed{[]int64{r.id}, func(now []place) error {
			if p := placeOf(now, r.id); p.outcome == "" {
				return fmt.Errorf("it was deleted, and is %+v", p)
			}
			return nil
		}}
	},
}

// others are other runners.
var others = map[string]actor{
	"a second runner": func(c *trial, _ row) deed {
		b := c.process("B", nil)
		b.begin(context.Background())
		<-b.ended
		c.blame(b.err)
		return deed{}
	},
	"catch-up": func(c *trial, _ row) deed {
		b := c.process("B", nil)
		if c.scenario.now.Equal(missed) {
			c.blame(b.run(context.Background(), slot(4)))
		} else {
			c.blame(b.catchUp(context.Background(), slots.CatchUp{}))
		}
		return deed{}
	},
}

// blame records the error of an application that did nothing wrong.
func (c *trial) blame(err error) {
	if err != nil {
		c.complain("%s failed: %v", c.hazard.name, err)
	}
}

func inTxOf(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func wasCancelled(r row, found bool) func(now []place) error {
	return func(now []place) error {
		switch p := placeOf(now, r.id); {
		case found && p.outcome != jobs.OutcomeCancelled:
			return fmt.Errorf("it was cancelled, and is %+v", p)
		case !found && (p.outcome == "" || p.outcome == jobs.OutcomeCancelled):
			return fmt.Errorf("cancel did not find it, and it is %+v", p)
		}
		return nil
	}
}

// request is another check that was asked for, of a key that waited when the trial began, at slot 3.
type request struct {
	row row
	on  jobs.OnConflict
	got jobs.EnqueueResult
}

// enqueues asks for another check of a key, at slot 3 or, if that has begun, the next one. A row that is due takes it
// as a request.
func enqueues(on jobs.OnConflict) actor {
	return func(c *trial, r row) deed {
		e, err := c.ask(r, on)
		c.blame(err)
		if e.Action == jobs.ActionRecorded {
			return deed{} // see requestsAreHonoured
		}
		if !e.Slot.After(c.clock.Now()) {
			c.complain("%s of %s: it is to wait for %s, which has begun", c.hazard.name, r.natural(), e.Slot)
		}
		return deed{[]int64{r.id}, func(now []place) error {
			if p := placeOf(now, e.ID); p.outcome != "" || !p.slot.Equal(e.Slot) {
				return fmt.Errorf("it was %s to wait for %s, and is %+v", e.Action, e.Slot, p)
			}
			return nil
		}}
	}
}

// ask asks for another check of a key, and notes that.
func (c *trial) ask(r row, on jobs.OnConflict) (jobs.EnqueueResult, error) {
	j := jobs.Request{JobExec: r.job, EntityName: r.entity, EntityKey: r.key, GroupKey: r.group}
	j.CheckAt = slot(3)
	e, err := c.client.Enqueue(context.Background(), jobs.OwnTx(c.db), j, on)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, request{r, on, e})
	}
	return e, err
}

// askForAll asks for another check of each row that is due, by each policy in turn.
func askForAll(c *trial) {
	for i, r := range c.rows {
		on := []jobs.OnConflict{jobs.Keep, jobs.Replace, jobs.PushBack(0)}[i%3]
		if e, err := c.ask(r, on); err != nil || e.Action != jobs.ActionRecorded || e.ID != r.id {
			c.t.Fatal(e, err)
		}
	}
}

// requestsAreHonoured looks whether a check waits of each key that was asked for while it was due.
func (c *trial) requestsAreHonoured(now []place) {
	c.mu.Lock()
	list := slices.Clone(c.requests)
	c.mu.Unlock()
	for _, q := range list {
		if q.got.Action != jobs.ActionRecorded {
			continue
		}
		asked := slot(3)
		if next := grid.Default.Next(c.clock.Now()); asked.Before(next) {
			asked = next
		}
		var waits []place
		for _, p := range now {
			if p.outcome == "" && p.key == fmt.Sprintf("%s %s %s ", q.row.job, q.row.entity, q.row.key) {
				waits = append(waits, p)
			}
		}
		p := placeOf(now, q.row.id)
		switch {
		case q.got.ID != q.row.id || !q.got.Slot.Equal(q.row.slot):
			c.complain("what was asked for of row %d (%s) was recorded on %+v", q.row.id, q.row.natural(), q.got)
		case len(waits) != 1:
			c.rowComplaint(q, p, waits)
		case p.outcome == "" && (q.on == jobs.Replace || q.on != jobs.Keep && p.slot.Before(asked)):
			c.rowComplaint(q, p, waits)
		case p.outcome == jobs.OutcomeReplaced && q.on == jobs.Keep:
			c.rowComplaint(q, p, waits)
		case p.outcome != "" && !waits[0].slot.Equal(asked):
			c.rowComplaint(q, p, waits)
		}
	}
}

// isChangedByRequest tells whether a request changes a row that waits again after its check.
func (c *trial) isChangedByRequest(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.requests, func(q request) bool { return q.got.ID == id && q.on != jobs.Keep })
}

func (c *trial) rowComplaint(q request, p place, waits []place) {
	c.complain("row %d (%s) was asked for again (%+v) while it was due, and is %+v; of its key waits %+v", q.row.id, q.row.natural(), q.on, p, waits)
}
