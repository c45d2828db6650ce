package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
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
	Slot       time.Time
	Runner     string // empty: no run ended the row
}

// endedBy reports whether a process ended the row.
func (e ended) endedBy(pid int) bool { return strings.HasSuffix(e.Runner, ":"+strconv.Itoa(pid)) }

// after a cancel that was acknowledged, a check that holds no lock may start for so long: package slots takes rows to
// be as they were read for 3 s.
const readAhead = 4 * time.Second

// readLedgers returns the ledger of starts, the history of each store, and that by job and key.
func (t *torture) readLedgers(ctx context.Context) (starts []started, history []ended, rows map[string][]ended, err error) {
	if starts, err = readStarts(t.starts()); err != nil {
		return nil, nil, nil, err
	}
	history, err = eachStore[ended](ctx, t, `
		select id, job_exec, entity_name, entity_key, check_count, outcome, slot, coalesce(runner, '') as runner
		from prescient.future_job_history`)
	if err != nil {
		return nil, nil, nil, err
	}
	rows = map[string][]ended{}
	for _, h := range history {
		rows[h.JobExec+" "+h.EntityKey] = append(rows[h.JobExec+" "+h.EntityKey], h)
	}
	t.counts["checks started"], t.counts["rows that ended"], t.counts["changes asked for"] = len(starts), len(history), 0
	return starts, history, rows, nil
}

// check notes the invariants that are broken at the end.
func (t *torture) check(ctx context.Context, m *mutator) error {
	starts, history, rows, err := t.readLedgers(ctx)
	if err != nil {
		return err
	}
	t.checkStories(m, rows, starts, t.broken)
	checkStarts(starts, history, t.clock, t.broken)
	t.checkLimits(starts, t.broken)
	for _, check := range []func(context.Context) error{
		t.checkRest, t.checkSchedules, t.checkCron,
		func(ctx context.Context) error { return t.checkLedger(ctx, history) },
		func(ctx context.Context) error { return t.checkEffects(ctx, history) },
		func(ctx context.Context) error { return t.checkRule(ctx, m) },
		func(ctx context.Context) error { return t.checkDestinations(ctx, starts) },
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return t.checkLeaks()
}

// checkRest finds what is left in the stores when all work is done.
func (t *torture) checkRest(ctx context.Context) error {
	type rest struct {
		What string
		N    int
	}
	left, err := eachStore[rest](ctx, t, `
		select 'rows wait' as what, count(*) as n from prescient.future_job where entity_name <> 'schedule'
		union all select 'slots are open', count(*) from prescient.slot_run where state = 'open'
		union all select 'claims are left', count(*) from prescient.slot_claim
		union all select 'permits are left', count(*) from prescient.job_permit
		union all select 'sessions are left', count(*) from pg_stat_activity
			where application_name like 'prescient%' and datname = 'prescient'
		union all select 'slots have no entry in the ledger', count(*) from (
			select slot - lag(slot) over (order by slot) as step
			from prescient.slot_run
			where slot between (select since from prescient.setting) and clock_timestamp()
		) as s where step > $1::bigint * interval '1 second'`, int64(t.width()/time.Second))
	for _, l := range left {
		if l.N > 0 {
			t.broken("%d %s", l.N, l.What)
		}
	}
	return err
}

// checkLeaks finds the goroutines that processes left when their commands were over.
func (t *torture) checkLeaks() error {
	text, err := os.ReadFile(t.leaks())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if len(text) > 0 {
		t.broken("%s", text)
	}
	return err
}

// counted is a slot with its count in the ledger.
type counted struct {
	Slot     time.Time
	Finished int
}

// checkLedger compares the ledger with history.
func (t *torture) checkLedger(ctx context.Context, history []ended) error {
	var ledger []counted
	if err := t.admin.SelectContext(ctx, &ledger, "select slot, finished from prescient.slot_run"); err != nil {
		return err
	}
	t.counts["slots"] = len(ledger)
	checkCounts(ledger, history, t.broken)
	return nil
}

func checkCounts(ledger []counted, history []ended, broken func(string, ...any)) {
	ended := map[int64]int{}
	for _, h := range history {
		if h.Runner != "" && h.Outcome != "failed" {
			ended[h.Slot.UnixNano()]++
		}
	}
	for _, l := range ledger {
		if n := ended[l.Slot.UnixNano()]; n != l.Finished {
			broken("the ledger counts %d rows that ended in slot %s, and history has %d", l.Finished, l.Slot.UTC(), n)
		}
		delete(ended, l.Slot.UnixNano())
	}
	for slot, n := range ended {
		broken("history has %d rows of slot %s, and the ledger does not have it", n, time.Unix(0, slot).UTC())
	}
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
			if request(a) && !slices.ContainsFunc(s.asks[i+1:], mayCancel) &&
				!slices.ContainsFunc(startsOf[s.job+" "+s.key], func(st started) bool { return st.at.After(a.began) }) {
				broken("%s %s: no check started after the request of %v, which was %s", s.job, s.key, a.began, a.action)
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
			if shown := t.clock.latest(st.at); shown.Before(first) {
				broken("%s %s started %v before the first instant that was asked for", s.job, s.key, first.Sub(shown))
			}
		}
	}
}

// request reports whether a call asked for a check, and was acknowledged.
func request(a ask) bool { return a.known == done && a.what != "cancel" && a.what != "reschedule" }

func mayCancel(a ask) bool { return a.what == "cancel" && a.known != none }

// checkStarts compares the ledger of starts with history. The number of a check is the number of checks before it that
// were recorded, so each one up to the count of the row must have started.
func checkStarts(starts []started, history []ended, c *clock, broken func(string, ...any)) {
	ids := map[int64]ended{}
	for _, h := range history {
		if twice, ok := ids[h.ID]; ok {
			broken("row %d is in history twice: %+v and %+v", h.ID, twice, h)
		}
		ids[h.ID] = h
	}
	type attempt struct {
		id    int64
		check int
	}
	begun := map[attempt][]started{}
	for _, s := range starts {
		of := attempt{s.id, s.checks}
		begun[of] = append(begun[of], s)
		h, ok := ids[s.id]
		switch {
		case !ok:
			broken("row %d of %s %s started, and history does not have it", s.id, s.job, s.key)
		case s.checks > h.CheckCount:
			broken("check %d of row %d started, and %d were recorded", s.checks+1, s.id, h.CheckCount)
		}
		if shown := c.latest(s.at); shown.Before(s.slot) {
			broken("row %d started %v before its slot", s.id, s.slot.Sub(shown))
		}
	}
	for _, h := range history {
		if h.EntityName != entity {
			continue
		}
		for check := range h.CheckCount {
			if _, ok := begun[attempt{h.ID, check}]; !ok {
				broken("check %d of row %d was recorded, and did not start", check+1, h.ID)
			}
		}
		// A process that takes a row over starts its check again. Then a record of another process has an old token.
		// The order of the file is another one: a process may be stopped while it waits to write its line.
		all := begun[attempt{h.ID, h.CheckCount - 1}]
		slices.SortStableFunc(all, func(a, b started) int { return a.at.Compare(b.at) })
		if len(all) > 0 && h.Outcome == "done" && !h.endedBy(all[len(all)-1].pid) {
			broken("process %d was the last to start check %d of row %d, and %s recorded it: %+v", all[len(all)-1].pid, h.CheckCount,
				h.ID, h.Runner, all)
		}
	}
}

// checkLimits finds moments at which more checks ran than AtMost allows, and seconds in which more began than PerSecond
// allows. A process that was killed or stood still runs nothing then. A check that ignored its timeout and the grace
// period is abandoned, and other runs have its permit.
func (t *torture) checkLimits(starts []started, broken func(string, ...any)) {
	type edge struct {
		at   time.Time
		step int
		of   int // the check, by its place in starts
	}
	var edges []edge
	var begun []time.Time
	for i, s := range starts {
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
			if abandoned := s.at.Add(callTimeout + grace); end.After(abandoned) {
				end = abandoned
			}
			edges = append(edges, edge{s.at, 1, i}, edge{end, -1, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.step - b.step
	})
	running := map[int]bool{}
	for _, e := range edges {
		if e.step < 0 {
			delete(running, e.of)
			continue
		}
		running[e.of] = true
		if len(running) > atMost {
			var all []started
			for _, i := range slices.Sorted(maps.Keys(running)) {
				all = append(all, starts[i])
			}
			broken("%d checks of %s ran at %v, %d may: %+v", len(running), limitedJob, e.at, atMost, all)
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

// effect sums up the rows that the checks of a row wrote in their transactions.
type effect struct {
	ID    int64
	N     int
	Twice bool
	Last  int  // the process of the last one
	Early bool // one was before its slot, by the clock of the database
}

// checkEffects compares the effects of checks in transactions with the counts of their rows.
func (t *torture) checkEffects(ctx context.Context, history []ended) error {
	var effects []effect
	err := t.admin.SelectContext(ctx, &effects, `
		select id, count(*) as n, count(*) > count(distinct check_count) as twice, bool_or(at < slot and not $1) as early,
			(array_agg(pid order by check_count desc))[1] as last
		from torture.effect group by id`, t.clock != nil)
	if err != nil {
		return err
	}
	for _, e := range effects {
		t.counts["effects in transactions"] += e.N
	}
	compareEffects(effects, history, t.broken)
	return nil
}

func compareEffects(effects []effect, history []ended, broken func(string, ...any)) {
	of := map[int64]effect{}
	for _, e := range effects {
		of[e.ID] = e
		if e.Twice {
			broken("a check of row %d had its effect twice", e.ID)
		}
		if e.Early {
			broken("a check of row %d had its effect before its slot, by the clock of the database", e.ID)
		}
	}
	for _, h := range history {
		e := of[h.ID]
		switch {
		case h.JobExec != txJob:
		case e.N != h.CheckCount:
			broken("row %d was checked %d times, and has %d effects", h.ID, h.CheckCount, e.N)
		case h.Outcome == "done" && !h.endedBy(e.Last):
			broken("process %d had the effect of row %d, and %s recorded it", e.Last, h.ID, h.Runner)
		}
	}
}

func readStarts(path string) (all []started, err error) {
	file, err := os.Open(path)
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
		// A process that is killed within a write leaves the beginning of a line, and the next line follows at once.
		line := lines.Text()
		line = line[max(strings.LastIndex(line, "start "), strings.LastIndex(line, "end "), 0):]
		if _, err := fmt.Sscan(line, &what, &s.id, &s.job, &s.key, &s.checks, &slot, &at, &s.pid); err != nil {
			return nil, fmt.Errorf("read the ledger of starts: %w in %q", err, line)
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
