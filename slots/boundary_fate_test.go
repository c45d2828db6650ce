package slots_test

import (
	"regexp"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// fate is a possible end of a row.
type fate struct {
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

// checked is the fates of a row that is checked once. One whose function was let down by a statement of its own may
// have failed for that, as may one that was caught up on for what its job says about that.
func checked(c *trial, r row) []fate {
	if r.slot.After(c.clock.Now()) {
		return []fate{{"", r.slot, r.checks, r.errors, 0}}
	}
	ended := func(outcome jobs.Outcome, checks, errors, effects int) fate {
		return fate{outcome, r.slot, r.checks + checks, r.errors + errors, effects}
	}
	failed := func(effects int) fate {
		if r.errors == jobs.DefaultRetry {
			return ended(jobs.OutcomeFailed, 0, 1, effects)
		}
		return fate{"", c.next(r), r.checks, r.errors + 1, effects}
	}
	effect := number(inTx[r.job])
	var fates []fate
	switch kindOf(r.key) {
	case "finish", "slow":
		fates = append(fates, ended(jobs.OutcomeDone, 1, 0, effect))
	case "last":
		fates = append(fates, ended(jobs.OutcomeMaxChecks, 1, 0, effect))
	case "move":
		fates = append(fates, fate{"", c.next(r), r.checks + 1, 0, effect})
	default:
		fates = append(fates, failed(number(inBatchTx[r.job])))
	}
	if c.seen.broken[r.id] {
		fates = append(fates, failed(0))
	}
	if c.seen.resumed {
		fates = append(fates, policy(c, r)...)
	}
	return fates
}

// policy is the fate of a row whose job has one for missed slots.
func policy(c *trial, r row) []fate {
	switch r.job {
	case "defer":
		return []fate{{"", c.next(r), r.checks, r.errors, 0}}
	case "skip":
		return []fate{{jobs.OutcomeSkipped, r.slot, r.checks, r.errors, 0}}
	case "strict":
		return []fate{{jobs.OutcomeDeadline, r.slot, r.checks, r.errors, 0}}
	}
	return nil
}

// misfires is the fates of rows of which those in missed slots are caught up on.
func misfires(c *trial, r row) []fate {
	if fates := policy(c, r); fates != nil && r.slot.Before(slot(4)) {
		return fates
	}
	return checked(c, r)
}

// deferred is the fates of rows of which those in missed slots are deferred to one of the next two.
func deferred(c *trial, r row) []fate {
	fates := []fate{{"", slot(5), r.checks, r.errors, 0}, {"", slot(6), r.checks, r.errors, 0}}
	switch {
	case r.slot.Before(slot(4)):
		return fates
	case c.seen.resumed:
		return append(fates, checked(c, r)...)
	}
	return checked(c, r)
}

var ofPublishing = regexp.MustCompile(`prescient\.(schedule|event_outbox|setting)`)

// published is the fates of schedules. Where a statement of their publishing has failed all of the batch has.
func published(c *trial, r row) []fate {
	fates := []fate{{"", c.next(r), 1, 0, 0}}
	if ofPublishing.MatchString(c.hit) {
		fates = append(fates, fate{"", c.next(r), 0, 1, 0})
	}
	return fates
}
