package slots_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// place is where a row is in the end.
type place struct {
	id      int64
	job     string
	key     string
	outcome jobs.Outcome // empty: it waits
	slot    time.Time    // the one it waits for, or the one it ended in
	checks  int
	errors  int
}

// placeOf returns the place of a row; the zero place when it has none.
func placeOf(now []place, id int64) place {
	for _, p := range now {
		if p.id == id {
			return p
		}
	}
	return place{outcome: "nowhere"}
}

// places lists every row, in both tables.
func (c *trial) places() []place {
	c.t.Helper()
	rows, err := c.testbed.admin.QueryContext(c.t.Context(), `
		select f.id, j.name, concat_ws(' ', j.name, f.entity_name, f.entity_key, f.item_key), '', f.next_check_at, f.check_count, f.error_count
		from prescient.future_job f
		left join prescient.job j on j.job = f.job
		union all
		select id, job_exec, '', outcome, slot, check_count, error_count
		from prescient.future_job_history
		order by 1`)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var list []place
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.id, &p.job, &p.key, &p.outcome, &p.slot, &p.checks, &p.errors); err != nil {
			c.t.Fatal(err)
		}
		p.slot = p.slot.UTC()
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	return list
}

// judge looks whether every promise was kept.
func (c *trial) judge() {
	c.t.Helper()
	c.seen.mu.Lock() // checks of a dead process may not have noticed yet
	defer c.seen.mu.Unlock()
	now := c.places()
	c.eachRowIsInOnePlace(now)
	effects := c.effects()
	counts := map[count]*bounds{}
	for _, r := range c.rows {
		c.rowIsAsItShouldBe(r, placeOf(now, r.id), effects[r.id], counts)
	}
	for id := range effects {
		if !slices.ContainsFunc(c.rows, func(r row) bool { return r.id == id }) {
			c.complain("row %d, which was never due, has effects", id)
		}
	}
	if c.deed.kept != nil {
		if err := c.deed.kept(now); err != nil {
			c.complain("rows %v: %v", c.deed.ids, err)
		}
	}
	if c.scenario.events {
		c.eventsAreThoseOfTheRows(now)
	}
	if c.scenario.judge != nil {
		c.scenario.judge(c, now)
	}
	c.childrenAreThoseOfTheChecks(now)
	c.requestsAreHonoured(now)
	c.ledgerIsRight(counts)
	c.resultsAreRight()
	c.nothingIsLeft()
	c.claimsWereKept()
}

// childrenAreThoseOfTheChecks looks whether each check that asked for another one got it, once.
func (c *trial) childrenAreThoseOfTheChecks(now []place) {
	var parents []int64
	c.list(&parents, `select f.entity_key::bigint from prescient.future_job f join prescient.job j using (job) where j.name = 'child'`)
	for _, r := range c.rows {
		if !strings.HasPrefix(r.job, "asking") {
			continue
		}
		children := 0
		for _, id := range parents {
			if id == r.id {
				children++
			}
		}
		if checks := placeOf(now, r.id).checks - r.checks; children != checks {
			c.complain("row %d (%s) was checked %d times, and %d others were asked for", r.id, r.natural(), checks, children)
		}
	}
}

func (c *trial) eachRowIsInOnePlace(now []place) {
	seen, waits := map[int64]bool{}, map[string]bool{}
	for _, p := range now {
		if seen[p.id] {
			c.complain("row %d is in two places: %+v", p.id, p)
		}
		seen[p.id] = true
		if p.outcome == "" {
			if waits[p.key] && p.job != "child" {
				c.complain("two rows wait with the key %s", p.key)
			}
			waits[p.key] = true
			if !p.slot.After(c.clock.Now()) {
				c.complain("row %d waits in a slot that is over: %+v", p.id, p)
			}
		}
		if !slices.ContainsFunc(c.rows, func(r row) bool { return r.id == p.id }) && (p.outcome != "" || p.checks+p.errors != 0) {
			c.complain("row %d, which was never due, was worked on: %+v", p.id, p)
		}
	}
	for _, r := range c.rows {
		if !seen[r.id] {
			c.complain("row %d (%s) is nowhere", r.id, r.natural())
		}
	}
}

// effects counts what checks have written in their transactions.
func (c *trial) effects() map[int64]int {
	c.t.Helper()
	var ids []int64
	c.list(&ids, `select id from effect`)
	n := map[int64]int{}
	for _, id := range ids {
		n[id]++
	}
	return n
}

// count is what the ledger counts, and bounds what it should be: whether a row that its owner has changed was recorded
// before is not always to be seen.
type count struct {
	slot, job, what string
}

type bounds struct{ low, high int }

func (b *bounds) add(low, high int) { b.low, b.high = b.low+low, b.high+high }

// rowIsAsItShouldBe compares a row with its allowed verdicts, its checks and its effects, and counts what was recorded of it.
func (c *trial) rowIsAsItShouldBe(r row, p place, effects int, counts map[count]*bounds) {
	name := fmt.Sprintf("row %d (%s)", r.id, r.natural())
	owned := slices.Contains(c.deed.ids, r.id) || c.isChangedByRequest(r.id)
	allowed := c.scenario.allowed(c, r)
	got := verdict{p.outcome, p.slot, p.checks, p.errors, effects}
	if !owned && !slices.Contains(allowed, got) {
		c.complain("%s is %+v, want one of %+v", name, got, allowed)
	}

	checked, failed := p.checks == r.checks+1, p.checks == r.checks && p.errors == r.errors+1
	if !checked && !failed && (p.checks != r.checks || p.errors != r.errors) {
		c.complain("%s has %d checks and %d errors after %d and %d", name, p.checks, p.errors, r.checks, r.errors)
	}
	starts := c.seen.starts[r.id]
	if (checked || failed) && starts == 0 && !c.scenario.events {
		c.complain("%s has an outcome, and was not checked", name)
	}
	if starts > 1 && !c.hazard.overtaken && !c.someDied() && !inTx[r.job] && !c.wasSlow() {
		c.complain("%s was checked %d times by runners of which none has died", name, starts)
	}
	want := number(inTx[r.job] && (checked || failed && inBatchTx[r.job] && !c.seen.broken[r.id]))
	if broken := failed && c.seen.broken[r.id]; effects != want && !broken || effects > 1 {
		c.complain("%s has %d effects, want %d of %+v", name, effects, want, p)
	}

	what, low := "", 1
	switch {
	case failed:
		what = "failed"
	case checked && slices.Contains([]jobs.Outcome{jobs.OutcomeDone, jobs.OutcomeMaxChecks}, p.outcome), p.outcome == jobs.OutcomeSkipped, p.outcome == jobs.OutcomeDeadline:
		what = "finished"
	case checked, !owned && p.outcome == "" && !p.slot.Equal(r.slot):
		what = "rescheduled"
	case owned && slices.ContainsFunc(allowed, func(f verdict) bool { return f.outcome == "" && f.checks == r.checks && f.errors == r.errors }):
		what, low = "rescheduled", 0 // it may have been deferred first
	}
	for _, w := range []string{"finished", "rescheduled", "failed"} {
		for _, at := range []count{{r.slot.Format("15:04"), r.job, w}, {r.slot.Format("15:04"), "", w}} {
			if counts[at] == nil {
				counts[at] = &bounds{}
			}
			if w == what {
				counts[at].add(low, 1)
			}
		}
	}
}

// ledgerRow is a row of the ledger: of a slot, or of a job in one.
type ledgerRow struct {
	Slot                                   time.Time
	Job                                    string // empty: of the slot
	State                                  string
	Checked, Finished, Rescheduled, Failed int
}

// ledgerIsRight compares the ledger, in all and by job, with what was recorded.
func (c *trial) ledgerIsRight(want map[count]*bounds) {
	c.t.Helper()
	var rows []ledgerRow
	c.list(&rows, `
		select slot, '' as job, state, checked, finished, rescheduled, failed from prescient.slot_run
		union all
		select s.slot, j.name, '', s.finished + s.rescheduled + s.failed, s.finished, s.rescheduled, s.failed
		from prescient.slot_job s
		left join prescient.job j on j.job = s.job
		order by 1, 2`)
	seen := map[count]bool{}
	for _, r := range rows {
		at := r.Slot.UTC().Format("15:04")
		if r.Checked != r.Finished+r.Rescheduled+r.Failed {
			c.complain("the ledger: %+v: checked is not the sum", r)
		}
		for what, got := range map[string]int{"finished": r.Finished, "rescheduled": r.Rescheduled, "failed": r.Failed} {
			key := count{at, r.Job, what}
			seen[key] = true
			b := want[key]
			if b == nil {
				b = &bounds{}
			}
			if got < b.low || got > b.high {
				c.complain("the ledger has %d %s of job %q in slot %s, want %d to %d", got, what, r.Job, at, b.low, b.high)
			}
		}
	}
	for key, b := range want {
		if !seen[key] && b.low > 0 {
			c.complain("the ledger has nothing of job %q in slot %s", key.job, key.slot)
		}
	}
	for _, at := range c.scenario.slots {
		if !slices.ContainsFunc(rows, func(r ledgerRow) bool { return r.Slot.Equal(at) && r.State == "done" }) {
			c.complain("slot %s is not done", at)
		}
	}
}

// someDied tells whether a process has died.
func (c *trial) someDied() bool {
	return slices.ContainsFunc(c.processes, (*process).dead)
}

// resultsAreRight compares what the runners say they have recorded with the ledger, which has more only where one of them cannot know.
func (c *trial) resultsAreRight() {
	c.t.Helper()
	if c.someDied() || c.scenario.stops && c.hazard.overtaken { // one that is told to stop does not wait for a late reply
		return
	}
	var said, ledger [3]int64
	for _, p := range c.processes {
		for _, r := range p.results {
			said[0], said[1], said[2] = said[0]+r.Finished, said[1]+r.Rescheduled, said[2]+r.Failed
			if r.Checked != r.Finished+r.Rescheduled+r.Failed {
				c.complain("%s: %+v: checked is not the sum", p.name, r)
			}
		}
	}
	const sums = `select coalesce(sum(finished), 0)::bigint, coalesce(sum(rescheduled), 0)::bigint, coalesce(sum(failed), 0)::bigint from prescient.slot_run`
	if err := c.testbed.admin.QueryRowContext(c.t.Context(), sums).Scan(&ledger[0], &ledger[1], &ledger[2]); err != nil {
		c.t.Fatal(err)
	}
	// Nor longer than its grace for one that comes so late, or for a database that is away.
	fault := c.hazard.fault
	unknown := c.scenario.stops && (fault.Kind == pgtest.Outage || fault.Pause > trialGrace)
	if said != ledger && !unknown || said[0] > ledger[0] || said[1] > ledger[1] || said[2] > ledger[2] {
		c.complain("the runners say they have recorded %d finished, rescheduled, failed, and the ledger says %d", said, ledger)
	}
}

// nothingIsLeft looks for what should be gone with the last record, and whether the status says so.
func (c *trial) nothingIsLeft() {
	c.t.Helper()
	var left []string
	c.list(&left, `
		select concat_ws(' ', 'claim', token, runner, jobs::text, allocated_until - clock_timestamp()) from prescient.slot_claim
		union all
		select concat_ws(' ', 'tally', token, part, job) from prescient.slot_progress`)
	if len(left) > 0 {
		c.complain("left behind: %s", strings.Join(left, ", "))
	}
	status, err := c.ledger().Status(c.t.Context(), time.Time{})
	if err != nil || !status.OK() || len(status.Running) > 0 || status.Current.State != slots.StateDone && status.Grid.Width() == 15*time.Minute {
		c.complain("the status: %+v, %v", status, err)
	}
}

// eventsAreThoseOfTheRows: those of a slot, once, when the row has moved on, and none otherwise.
func (c *trial) eventsAreThoseOfTheRows(now []place) {
	c.t.Helper()
	var ids []string
	c.list(&ids, `select id from prescient.event_outbox order by id`)
	var want []string
	for _, r := range c.rows {
		if p := placeOf(now, r.id); p.checks == 1 {
			for _, minute := range []int{5, 10, 15} {
				want = append(want, fmt.Sprintf("%s-%d", r.key, noon.Add(time.Duration(minute)*time.Minute).Unix()))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(ids)
	if !slices.Equal(ids, want) {
		c.complain("published: %v, want %v", ids, want)
	}
}

// claimsWereKept: nobody claimed rows that somebody else had, took over a claim that was alive, or recorded something
// under a token that was not his any more.
func (c *trial) claimsWereKept() {
	c.t.Helper()
	var events []struct {
		What    string
		Slot    time.Time
		Token   int64
		Was     int64
		Live    bool
		Jobs    string
		FirstID int64 `db:"first_id"`
		LastID  int64 `db:"last_id"`
		Runner  string
	}
	c.list(&events, `
		select what, slot, token, coalesce(was, 0) as was, coalesce(live, false) as live, coalesce(jobs::text, '{}') as jobs,
			coalesce(first_id, 0) as first_id, coalesce(last_id, 0) as last_id, runner
		from claim_event order by seq`)
	held := map[int64]int{} // indexes of events by token
	for i, e := range events {
		switch e.What {
		case "ended":
			delete(held, e.Token)
			continue
		case "left":
			continue
		case "taken over":
			if e.Live {
				c.complain("%s took over claim %d, whose lease had not ended", e.Runner, e.Was)
			}
			delete(held, e.Was)
		}
		for _, at := range held {
			h := events[at]
			if h.Slot.Equal(e.Slot) && h.FirstID <= e.LastID && e.FirstID <= h.LastID && haveCommon(h.Jobs, e.Jobs) {
				c.complain("%s claimed rows that %s had: %+v, %+v", e.Runner, h.Runner, e, h)
			}
		}
		held[e.Token] = i
	}
	var unfenced []string
	c.list(&unfenced, `select concat_ws(' ', token, part, job) from unfenced`)
	if len(unfenced) > 0 {
		c.complain("recorded under a token that was not valid any more: %s", strings.Join(unfenced, ", "))
	}
}

// haveCommon tells whether two arrays of the database's have an element in common.
func haveCommon(a, b string) bool {
	for _, x := range strings.Split(strings.Trim(a, "{}"), ",") {
		if x != "" && slices.Contains(strings.Split(strings.Trim(b, "{}"), ","), x) {
			return true
		}
	}
	return false
}
