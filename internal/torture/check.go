package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// started is a line of the ledger of starts, with the end of the same call.
type started struct {
	id       int64
	job, key string
	checks   int
	slot     time.Time
	at, end  time.Time // end is zero until the call has ended
	pid      int
}

// ended is a row of history.
type ended struct {
	ID         int64
	JobExec    string `db:"job_exec"`
	EntityName string `db:"entity_name"`
	EntityKey  string `db:"entity_key"`
	CheckCount int    `db:"check_count"`
	Outcome    string
	ByRun      bool `db:"by_run"`
}

// after a cancel that was acknowledged, a check that holds no lock may start for so long: package slots takes rows to
// be as they were read for 3 s.
const readAhead = 4 * time.Second

// check returns the invariants that are broken.
func (t *torture) check(ctx context.Context, m *mutator) (found []string, err error) {
	broken := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	starts, err := t.readStarts()
	if err != nil {
		return nil, err
	}
	var history []ended
	err = t.admin.SelectContext(ctx, &history, `
		select id, job_exec, entity_name, entity_key, check_count, outcome, runner is not null as by_run
		from prescient.future_job_history`)
	if err != nil {
		return nil, err
	}
	t.counts["checks started"], t.counts["rows that ended"] = len(starts), len(history)
	t.counts["changes asked for"] = 0

	var state struct{ Waiting, Open, Claims, Permits, Sessions, Gaps, Finished int64 }
	err = t.admin.GetContext(ctx, &state, `
		select
			(select count(*) from prescient.future_job) as waiting,
			(select count(*) from prescient.slot_run where state = 'open') as open,
			(select count(*) from prescient.slot_claim) as claims,
			(select count(*) from prescient.job_permit) as permits,
			(select count(*) from pg_stat_activity
				where application_name like 'prescient%' and datname = 'prescient') as sessions,
			(select count(*) from (
				select slot - lag(slot) over (order by slot) as step from prescient.slot_run
			) as s where step > $1::bigint * interval '1 second') as gaps,
			(select coalesce(sum(finished), 0)::bigint from prescient.slot_run) as finished`, int64(width/time.Second))
	if err != nil {
		return nil, err
	}
	for what, n := range map[string]int64{
		"rows wait": state.Waiting, "slots are open": state.Open, "claims are left": state.Claims,
		"permits are left": state.Permits, "sessions are left": state.Sessions,
		"slots have no entry in the ledger": state.Gaps,
	} {
		if n != 0 {
			broken("%d %s", n, what)
		}
	}

	ids := map[int64]ended{}
	rows := map[string][]ended{}
	var byRun int64
	for _, h := range history {
		if twice, ok := ids[h.ID]; ok {
			broken("row %d is in history twice: %+v and %+v", h.ID, twice, h)
		}
		ids[h.ID] = h
		rows[h.JobExec+" "+h.EntityKey] = append(rows[h.JobExec+" "+h.EntityKey], h)
		if h.ByRun && h.Outcome != "failed" {
			byRun++
		}
	}
	if byRun != state.Finished {
		broken("the ledger counts %d rows that ended, and history has %d", state.Finished, byRun)
	}

	t.checkStories(m, rows, starts, broken)
	t.checkStarts(starts, ids, broken)
	t.checkLimits(starts, broken)
	if err := t.checkEffects(ctx, history, broken); err != nil {
		return nil, err
	}
	return found, t.checkRule(ctx, m, broken)
}

// checkStories compares what was asked for each key with the rows that there were.
func (t *torture) checkStories(m *mutator, rows map[string][]ended, starts []started, broken func(string, ...any)) {
	startsOf := map[string][]started{}
	for _, s := range starts {
		startsOf[s.job+" "+s.key] = append(startsOf[s.job+" "+s.key], s)
	}
	for _, s := range m.stories {
		least, most, cancels := 0, 0, 0
		var first time.Time
		for i, a := range s.asks {
			t.counts["changes asked for"]++
			inserts := a.what != "cancel" && a.what != "reschedule"
			switch {
			case a.known == unknown && inserts, a.known == done && a.action == "recorded":
				most++
			case a.known == done && (a.action == "inserted" || a.action == "replaced"):
				least++
				most++
			}
			if first.IsZero() || a.at.Before(first) {
				first = a.at
			}
			if a.known == done && a.what == "cancel" && a.action == "true" {
				cancels++
				until := time.Now().Add(time.Hour)
				if i+1 < len(s.asks) {
					until = s.asks[i+1].began
				}
				slack := readAhead
				if s.job == txJob {
					slack = 0
				}
				for _, st := range startsOf[s.job+" "+s.key] {
					if st.at.After(a.ended.Add(slack)) && st.at.Before(until) {
						broken("%s %s started %v after its cancel was acknowledged", s.job, s.key, st.at.Sub(a.ended))
					}
				}
			}
		}
		have := rows[s.job+" "+s.key]
		if len(have) < least || len(have) > most {
			broken("%s %s has %d rows, want %d to %d: %+v, asked %+v", s.job, s.key, len(have), least, most, have, s.asks)
		}
		cancelled := 0
		for _, h := range have {
			if h.Outcome == "cancelled" {
				cancelled++
			}
		}
		if cancelled < cancels {
			broken("%s %s was cancelled %d times, and history has %d", s.job, s.key, cancels, cancelled)
		}
		for _, st := range startsOf[s.job+" "+s.key] {
			if st.at.Before(first) {
				broken("%s %s started %v before the first instant that was asked for", s.job, s.key, first.Sub(st.at))
			}
		}
	}
}

func (t *torture) checkStarts(starts []started, ids map[int64]ended, broken func(string, ...any)) {
	for _, s := range starts {
		if _, ok := ids[s.id]; !ok {
			broken("row %d of %s %s started, and history does not have it", s.id, s.job, s.key)
		}
		if s.at.Before(s.slot) {
			broken("row %d started %v before its slot", s.id, s.slot.Sub(s.at))
		}
	}
}

// checkLimits finds moments at which more checks ran than AtMost allows, and seconds in which more began than PerSecond
// allows. A process that was killed or stood still runs nothing then.
func (t *torture) checkLimits(starts []started, broken func(string, ...any)) {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	var begun []time.Time
	for _, s := range starts {
		switch s.job {
		case pacedJob:
			begun = append(begun, s.at)
		case limitedJob:
			end := s.end
			for _, h := range t.halts {
				if h.pid == s.pid && h.from.After(s.at) && (end.IsZero() || h.from.Before(end)) {
					end = h.from
				}
			}
			if end.IsZero() {
				continue // how it ended is not known
			}
			edges = append(edges, edge{s.at, 1}, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.step - b.step
	})
	running := 0
	for _, e := range edges {
		if running += e.step; running > atMost && e.step > 0 {
			broken("%d checks of %s ran at %v, %d may", running, limitedJob, e.at, atMost)
		}
	}
	slices.SortFunc(begun, time.Time.Compare)
	for i := range begun {
		if j := i + perSecond; j < len(begun) && begun[j].Sub(begun[i]) < time.Second {
			broken("%d checks of %s began within %v, %d may within a second",
				perSecond+1, pacedJob, begun[j].Sub(begun[i]), perSecond)
		}
	}
}

// checkEffects compares the effects of checks in transactions with the counts of their rows.
func (t *torture) checkEffects(ctx context.Context, history []ended, broken func(string, ...any)) error {
	var effects []struct {
		ID    int64
		N     int
		Twice bool
	}
	err := t.admin.SelectContext(ctx, &effects, `
		select id, count(*) as n, count(*) > count(distinct check_count) as twice from torture.effect group by id`)
	if err != nil {
		return err
	}
	of := map[int64]int{}
	for _, e := range effects {
		of[e.ID] = e.N
		if e.Twice {
			broken("a check of row %d had its effect twice", e.ID)
		}
	}
	for _, h := range history {
		if h.JobExec == txJob && of[h.ID] != h.CheckCount {
			broken("row %d was checked %d times, and has %d effects", h.ID, h.CheckCount, of[h.ID])
		}
	}
	return nil
}

// checkRule compares the events of the rule with arithmetic: a step fires once, if the order was not paid by then. An
// order that was paid after the instant of a step, and before its slot, may go either way.
func (t *torture) checkRule(ctx context.Context, m *mutator, broken func(string, ...any)) error {
	var events []struct {
		Subject string
		Type    string
		N       int
	}
	err := t.admin.SelectContext(ctx, &events, `
		select subject, type, count(*) as n from prescient.event_outbox group by subject, type`)
	if err != nil {
		return err
	}
	fired := map[string]int{}
	for _, e := range events {
		fired[e.Type+" "+e.Subject] = e.N
		t.counts["events of the rule"] += e.N
	}
	for _, o := range m.orders {
		t.counts["changes asked for"]++
		for name, after := range map[string]time.Duration{"first": 2 * time.Second, "second": 5 * time.Second} {
			due := o.since.Add(after)
			n := fired[name+" orders/"+strconv.FormatInt(o.id, 10)]
			never := o.paid.IsZero() || o.paidWas == none
			switch {
			case n > 1:
				broken("order %d: %s fired %d times", o.id, name, n)
			case o.made == none && n > 0:
				broken("order %d does not exist, and %s fired", o.id, name)
			case o.made == done && never && n == 0:
				broken("order %d: %s did not fire", o.id, name)
			case o.paidWas == done && o.ended.Before(due) && n > 0:
				broken("order %d was paid %v before %s, which fired", o.id, due.Sub(o.ended), name)
			}
		}
	}
	return nil
}

func (t *torture) readStarts() (all []started, err error) {
	file, err := os.Open(t.starts())
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	open := map[string]int{} // of a call that has not ended, its place in all
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var what string
		var s started
		var slot, at int64
		if _, err := fmt.Sscan(lines.Text(), &what, &s.id, &s.job, &s.key, &s.checks, &slot, &at, &s.pid); err != nil {
			return nil, fmt.Errorf("read the ledger of starts: %w in %q", err, lines.Text())
		}
		s.slot, s.at = time.Unix(0, slot), time.Unix(0, at)
		call := fmt.Sprint(s.id, s.checks, s.pid)
		if what == "end" {
			all[open[call]].end = s.at
			continue
		}
		open[call] = len(all)
		all = append(all, s)
	}
	return all, lines.Err()
}
