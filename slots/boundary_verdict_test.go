package slots_test

import (
	"regexp"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// verdict is what may have become of a row when a trial is over.
type verdict struct {
	outcome jobs.Outcome // empty: it waits
	slot    time.Time    // the one it waits for, or the one it ended in
	checks  int
	errors  int
	effects int
}

// inTx and inBatchTx are jobs that leave effects. In a batch the error of one row does not undo what was written for it.
var (
	inTx      = map[string]bool{"tx": true, "strict": true, "each": true, "batchtx": true, "askingtx": true, "left": true, "right": true, ruled: true}
	inBatchTx = map[string]bool{"batchtx": true, "askingtx": true, "left": true, "right": true}
)

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// next is the first slot after a row's own that has not begun.
func (c *trial) next(r row) time.Time {
	if now := c.clock.Now(); now.After(r.slot) {
		return grid.Default.Next(now)
	}
	return grid.Default.Next(r.slot)
}

// checked is the allowed verdicts of a row that is checked once. One whose function was let down by a statement of its own may
// have failed for that, as may one that was caught up on for what its job says about that.
func checked(c *trial, r row) []verdict {
	if r.slot.After(c.clock.Now()) {
		return []verdict{{"", r.slot, r.checks, r.errors, 0}}
	}
	ended := func(outcome jobs.Outcome, checks, errors, effects int) verdict {
		return verdict{outcome, r.slot, r.checks + checks, r.errors + errors, effects}
	}
	failed := func(effects int) verdict {
		if r.errors == defaults.Retry {
			return ended(jobs.OutcomeFailed, 0, 1, effects)
		}
		return verdict{"", c.next(r), r.checks, r.errors + 1, effects}
	}
	effect := number(inTx[r.job])
	var allowed []verdict
	switch kindOf(r.key) {
	case "finish", "slow":
		allowed = append(allowed, ended(jobs.OutcomeDone, 1, 0, effect))
	case "last":
		allowed = append(allowed, ended(jobs.OutcomeMaxChecks, 1, 0, effect))
	case "move":
		allowed = append(allowed, verdict{"", c.next(r), r.checks + 1, 0, effect})
	default:
		allowed = append(allowed, failed(number(inBatchTx[r.job])))
	}
	if c.seen.broken[r.id] {
		allowed = append(allowed, failed(0))
	}
	if c.seen.resumed {
		allowed = append(allowed, policy(c, r)...)
	}
	return allowed
}

// policy is the verdict of a row whose job has one for missed slots.
func policy(c *trial, r row) []verdict {
	switch r.job {
	case "defer":
		return []verdict{{"", c.next(r), r.checks, r.errors, 0}}
	case "skip":
		return []verdict{{jobs.OutcomeSkipped, r.slot, r.checks, r.errors, 0}}
	case "strict":
		return []verdict{{jobs.OutcomeDeadline, r.slot, r.checks, r.errors, 0}}
	}
	return nil
}

// misfires is the allowed verdicts of rows of which those in missed slots are caught up on.
func misfires(c *trial, r row) []verdict {
	if allowed := policy(c, r); allowed != nil && r.slot.Before(slot(4)) {
		return allowed
	}
	return checked(c, r)
}

// deferred is the allowed verdicts of rows of which those in missed slots are deferred to one of the next two.
func deferred(c *trial, r row) []verdict {
	allowed := []verdict{{"", slot(5), r.checks, r.errors, 0}, {"", slot(6), r.checks, r.errors, 0}}
	switch {
	case r.slot.Before(slot(4)):
		return allowed
	case c.seen.resumed:
		return append(allowed, checked(c, r)...)
	}
	return checked(c, r)
}

var ofPublishing = regexp.MustCompile(`prescient\.(schedule|event_outbox|setting)`)

// published is the allowed verdicts of schedules. Where a statement of their publishing has failed all of the batch has.
func published(c *trial, r row) []verdict {
	allowed := []verdict{{"", c.next(r), 1, 0, 0}}
	if ofPublishing.MatchString(c.hit) {
		allowed = append(allowed, verdict{"", c.next(r), 0, 1, 0})
	}
	return allowed
}
