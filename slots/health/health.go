package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// span is how far back jobs are judged.
const span = 24 * time.Hour

// Prompt is how soon after its beginning a run opens a slot if all is well.
const Prompt = time.Minute

// State tells which rows wait in the slots of a store at one moment, and which slots were missed or left open.
type State struct {
	ledger.Status
	// Due counts the overdue rows by job: rows of slots that are missed, left open or done, and those of the
	// current slot if no run has opened it for longer than Prompt. It leaves out paused jobs.
	Due map[string]ledger.Count
	// unopened counts the rows of the current slot, if no run has opened it yet.
	unopened  []ledger.JobCount
	ahead     ledger.Ahead
	dead      int64 // letters
	deadSince time.Time
}

// Read reads the state. since is the first slot to search for missed or open slots; the zero time means the
// ledger's first. A ledger of one transaction reads all of it in one snapshot; see [ledger.Ledger.In].
func Read(ctx context.Context, l *ledger.Ledger, since time.Time) (s State, err error) {
	if s.Status, err = l.Status(ctx, since); err != nil {
		return s, err
	}
	if s.Current.State == "" {
		if s.unopened, err = l.Waiting(ctx, s.Current.Slot); err != nil {
			return s, err
		}
	}
	s.Due = map[string]ledger.Count{}
	for _, c := range s.Overdue() {
		s.Due[c.JobExec] = s.Due[c.JobExec].Plus(c.Waiting)
	}
	if s.ahead, err = l.Ahead(ctx); err != nil {
		return s, err
	}
	s.dead, s.deadSince, err = l.DeadLetters(ctx)
	return s, err
}

// StateDue is the state of the current slot while no run has opened it.
const StateDue slots.State = "due"

// OverdueRows counts overdue rows of a job in slots of one state: slots.StateMissed, slots.StateOpen,
// slots.StateDone or StateDue.
type OverdueRows struct {
	ledger.JobCount
	State slots.State
}

// Overdue returns the overdue rows of each slot, by job.
func (s *State) Overdue() (list []OverdueRows) {
	for _, t := range s.Trouble {
		for _, c := range t.Jobs {
			list = append(list, OverdueRows{c, t.State})
		}
	}
	if s.Now.Sub(s.Current.Slot) > Prompt {
		for _, c := range s.unopened {
			if !c.Paused {
				list = append(list, OverdueRows{c, StateDue})
			}
		}
	}
	return list
}

// OverdueCount returns the number of overdue rows.
func (s *State) OverdueCount() (n ledger.Count) {
	for _, c := range s.Due {
		n = n.Plus(c)
	}
	return n
}

// Slots returns how many slots are missed, left open, have stragglers, or are being run.
func (s *State) Slots() (missed, leftOpen, stragglers, running int64) {
	missed, leftOpen = s.MoreMissed, s.MoreOpen
	for _, t := range s.Trouble {
		switch t.State {
		case slots.StateMissed:
			missed++
		case slots.StateOpen:
			leftOpen++
		default:
			stragglers++
		}
	}
	return missed, leftOpen, stragglers, int64(len(s.Running))
}

// Oldest returns the oldest slot that has begun and is not done, or has stragglers. It returns the zero time if
// there is none.
func (s *State) Oldest() (oldest time.Time) {
	if s.Current.State == "" {
		oldest = s.Current.Slot
	}
	for _, t := range slices.Concat(s.Trouble, s.Running) {
		if oldest.IsZero() || t.Slot.Before(oldest) {
			oldest = t.Slot
		}
	}
	return oldest
}

// Ahead returns how far the ledger lies beyond the current slot, because the clock was ahead.
func (s *State) Ahead() time.Duration { return s.ahead.By(s.Current.Slot) }

// DeadLetters returns the number of dead letters.
func (s *State) DeadLetters() int64 { return s.dead }

// Report is the state of a store at one moment, with how its jobs did, and the problems.
type Report struct {
	State
	Jobs      []ledger.JobStatus // checked in the last day, gave rows up, or unserved
	LateSlots []ledger.LateSlot  // of the last day, the newest 20
	// Slowest is the slot that took longest of the newest four that run on time, or are running.
	// Took is how long.
	Slowest   time.Time
	Took      time.Duration
	leaving   []ledger.Leaving
	consumers []string // of the outbox, whose position is ahead of the server's
	behind    []ledger.Behind
	unread    []ledger.Unread
	forgotten []ledger.Forgotten
	schedules []ledger.PausedSchedule
	receivers []ledger.UnknownReceiver
	knows     func(job string) bool
	told      told
	// Findings are the problems. Empty if all is well.
	Findings []Finding
}

// told has the problems that findings tell already: a problem that several conditions see is one finding.
type told struct {
	jobs   map[string]bool // unserved ones, whose rows wait for a binary
	states []slots.State   // of slots in trouble, with their rows
	gaveUp bool            // jobs whose rows were given up, with their errors
}

// Finding is a problem that a condition has found.
type Finding struct {
	Condition string `json:"condition"` // the kind of problem, as in status --check
	// Text describes the problem in words.
	Text string `json:"text"`
	// Remedy is the command that fixes the problem or tells more, without the name of the binary.
	// Empty if there is none.
	Remedy string `json:"remedy"`
	// Job is the job that the finding is about. Empty if it is not about one job.
	Job string `json:"job"`
}

// of makes findings be about a job.
func of(job string, found []Finding) []Finding {
	for i := range found {
		found[i].Job = job
	}
	return found
}

// Check reads the state and judges it. since is the first slot to search for missed or open slots;
// the zero time means the ledger's first. knows reports whether the caller has registered a job: the
// caller's catch-up cannot run rows of other jobs.
func Check(
	ctx context.Context, l *ledger.Ledger, since time.Time, thresholds Thresholds, knows func(job string) bool,
) (Report, error) {
	r := Report{knows: knows}
	var err error
	if r.State, err = Read(ctx, l, since); err != nil {
		return r, err
	}
	day := r.Now.Add(-span)
	if r.Jobs, err = l.Jobs(ctx, day); err != nil {
		return r, err
	}
	if r.LateSlots, err = l.LateSlots(ctx, day, 20); err != nil {
		return r, err
	}
	if r.Slowest, r.Took, err = l.Took(ctx, day); err != nil {
		return r, err
	}
	if r.leaving, err = l.Leaving(ctx); err != nil {
		return r, err
	}
	if r.consumers, err = l.ConsumersAhead(ctx); err != nil {
		return r, err
	}
	if r.behind, err = l.DestinationsBehind(ctx); err != nil {
		return r, err
	}
	if r.unread, err = l.Unread(ctx); err != nil {
		return r, err
	}
	if r.forgotten, err = l.Forgotten(ctx, r.Now); err != nil {
		return r, err
	}
	if r.schedules, err = l.PausedSchedules(ctx, r.Now); err != nil {
		return r, err
	}
	if r.receivers, err = l.UnknownReceivers(ctx); err != nil {
		return r, err
	}
	for _, c := range Conditions {
		if threshold, on := thresholds.of(c); on {
			for _, f := range c.judge(&r, threshold) {
				f.Condition = c.Name
				r.Findings = append(r.Findings, f)
			}
		}
	}
	return r, nil
}

// inState returns the number of troubled slots in the given states, their rows, and the first slot.
func (r *Report) inState(list []ledger.Trouble, states ...slots.State) (n int64, rows ledger.Count, first time.Time) {
	for _, t := range list {
		if slices.Contains(states, t.State) {
			if n++; n == 1 {
				first = t.Slot
			}
			rows = rows.Plus(t.Waiting())
		}
	}
	if slices.Contains(states, slots.StateMissed) {
		n += r.MoreMissed
	}
	if slices.Contains(states, slots.StateOpen) {
		n += r.MoreOpen
	}
	return n, rows, first
}

// untold returns slots without the rows of jobs that a finding has told. It leaves out slots that
// have no other rows.
func (r *Report) untold(list []ledger.Trouble) (rest []ledger.Trouble) {
	for _, t := range list {
		counts := slices.DeleteFunc(slices.Clone(t.Jobs), func(c ledger.JobCount) bool { return r.told.jobs[c.JobExec] })
		if len(counts) < len(t.Jobs) {
			if t.Jobs = counts; len(counts) == 0 {
				continue
			}
		}
		rest = append(rest, t)
	}
	return rest
}

func rowsOf(counts []ledger.JobCount) ledger.Count { return ledger.Trouble{Jobs: counts}.Waiting() }

// tell marks slots in trouble as told, and returns the findings that tell them.
func (r *Report) tell(found []Finding, states ...slots.State) []Finding {
	if len(found) > 0 {
		r.told.states = append(r.told.states, states...)
	}
	return found
}

func missed(r *Report, threshold float64) []Finding {
	n, rows, first := r.inState(r.Trouble, slots.StateMissed)
	return r.tell(r.found(float64(n) > threshold, "catch-up", "%s since %s: opened by no run; %s in %s",
		spoken.Count(n, "slot was", "slots were")+" missed", r.since(first), rows.Of("row waits", "rows wait"), them(n)),
		slots.StateMissed)
}

func ahead(r *Report, threshold float64) []Finding {
	return r.found(r.ahead.By(r.Current.Slot).Seconds() > threshold, "slots rewind", "%s", AheadText(r.ahead))
}

func consumers(r *Report, threshold float64) (list []Finding) {
	for _, name := range r.consumers {
		what := "consumer " + spoken.Word(name) + " of the outbox gets no events: its position is"
		if name == "" {
			what = "the outbox has events that no reader gets: their positions are"
		}
		list = append(list, r.found(float64(len(r.consumers)) > threshold, "migrate up",
			"%s another server's, as after a restore from a dump. migrate up gives the outbox positions of this server, and "+
				"loses nothing", what)...)
	}
	return list
}

// behind tells a destination that fails, refuses events, or gets none because nothing forwards.
func behind(r *Report, threshold float64) (list []Finding) {
	for _, b := range r.behind {
		failing := !b.FailingSince.IsZero() || b.Refused.N > 0
		if !failing && r.Now.Sub(b.Since).Seconds() <= threshold {
			continue
		}
		var waits []string
		if b.Waiting.N > 0 {
			waits = append(waits, b.Waiting.Of("event waits", "events wait")+" in the outbox")
		}
		if b.Refused.N > 0 {
			waits = append(waits, b.Refused.Of("refused event is", "refused events are")+" tried again")
		}
		text := fmt.Sprintf("destination %s (%s) is behind: %s, the oldest since %s", b.Name, b.Address,
			strings.Join(waits, ", and "), r.since(b.Since))
		switch {
		case failing && b.Error != "":
			text += fmt.Sprintf(". The last error: %s. Mend the destination; its events are then sent",
				strings.TrimSuffix(oneLine(b.Error), "."))
		case !b.Held:
			text += ". No process forwards: events leave at the end of a run, in a daemon, and by events forward. " +
				"If the settings have the destination no more, forget it with events forget " + spoken.Word(b.Name)
		}
		list = append(list, r.found(true, "events forward", "%s", text)...)
	}
	return list
}

// forgotten tells a job that was paused for a while and not resumed.
func forgotten(r *Report, threshold float64) (list []Finding) {
	for _, f := range r.forgotten {
		list = append(list, of(f.JobExec, r.found(r.Now.Sub(f.Since).Seconds() > threshold,
			"jobs resume "+spoken.Word(f.JobExec), "%s is paused since %s, by %s, and its rows wait, the oldest since slot %s",
			f.JobExec, r.since(f.Since), f.By, clock(f.Due)))...)
	}
	return append(list, forgottenSchedules(r, threshold)...)
}

// forgottenSchedules tells schedules that were paused for a while, and have missed an instant since.
func forgottenSchedules(r *Report, threshold float64) []Finding {
	var ids, texts []string
	for _, s := range r.schedules {
		if r.Now.Sub(s.Since).Seconds() <= threshold || !missedInstant(s, r) {
			continue
		}
		ids = append(ids, s.ID)
		texts = append(texts, fmt.Sprintf("%s (since %s, by %s)", s.ID, r.since(s.Since), s.By))
	}
	if len(ids) == 0 {
		return nil
	}
	return r.found(true, "schedules resume "+spoken.Word(ids[0]), "%s paused, and left out instants since: %s",
		spoken.Count(len(ids), "schedule is", "schedules are"), spoken.List(texts))
}

// missedInstant reports whether a schedule would have had an instant since it was paused.
func missedInstant(s ledger.PausedSchedule, r *Report) bool {
	all, err := schedule.Preview(schedule.Spec{
		ID: s.ID, Crontab: s.Crontab, Timezone: s.Timezone, Anchor: s.Anchor, Spread: s.Spread, Start: s.Start, End: s.End,
		Exclude: s.Exclude,
	}, r.Grid, s.Since, r.Now)
	if err != nil {
		return true // a schedule that cannot be read has to be looked at, too
	}
	for range all {
		return true
	}
	return false
}

// unknownReceivers tells receivers that rules or schedules notify and that no run has.
func unknownReceivers(r *Report, threshold float64) (list []Finding) {
	for _, u := range r.receivers {
		messages := "no message was written for it yet"
		if u.Messages.N > 0 {
			messages = fmt.Sprintf("%s in the outbox, the oldest since %s, which no person gets",
				u.Messages.Of("message for it is", "messages for it are"), r.since(u.Since))
		}
		list = append(list, r.found(float64(len(r.receivers)) > threshold, "receivers list",
			"no run has a receiver %s, and %s it: %s. Add the receiver to receivers in the settings of the runs, "+
				"or correct its name in notify. A new receiver gets the messages that are written from then on",
			u.Name, spoken.List(u.Of)+spoken.Noun(len(u.Of), " notifies", " notify"), messages)...)
	}
	return list
}

// unread tells a consumer for which the outbox keeps old events.
func unread(r *Report, threshold float64) (list []Finding) {
	for _, u := range r.unread {
		list = append(list, r.found(r.Now.Sub(u.Since).Seconds() > threshold, "events consumers",
			"consumer %s of the outbox has not read what was written since %s. The outbox, of %d MB, keeps these events. "+
				"Let it read them, or forget it with events forget %s", spoken.Word(u.Name), r.since(u.Since), u.Bytes>>20,
			spoken.Word(u.Name))...)
	}
	return list
}

func deadLetters(r *Report, threshold float64) []Finding {
	return r.found(float64(r.dead) > threshold, "events dead",
		"%s since %s: the destination refused them, or they are held back behind such an event. "+
			"Send them again with events resend, or discard them", spoken.Count(r.dead, "event is a dead letter",
			"events are dead letters"), r.since(r.deadSince))
}

// AheadText describes what lies beyond the clock.
func AheadText(a ledger.Ahead) string {
	var parts []string
	if !a.Since.IsZero() {
		parts = append(parts,
			fmt.Sprintf("the ledger begins at %s, which lies beyond the clock: no slot before it is found missed",
				clock(a.Since)))
	}
	if !a.Last.IsZero() {
		parts = append(parts, fmt.Sprintf("%s beyond the clock, the last %s: when they begin, runs find them done",
			spoken.Count(a.Slots, "slot of the ledger lies", "slots of the ledger lie"), clock(a.Last)))
	}
	if a.Schedules > 0 {
		parts = append(parts, spoken.Count(a.Schedules, "check of schedules was", "checks of schedules were")+
			" among them: the schedules are silent until then")
	}
	return "the clock was ahead while something was written: " + strings.Join(parts, "; ")
}

func stranded(r *Report, threshold float64) []Finding {
	list := r.untold(r.Trouble)
	n, rows, first := r.inState(list, slots.StateOpen, slots.StateDone)
	expired, of := int64(0), time.Time{}
	for _, c := range r.Claims {
		if len(c.Jobs) > 0 && !c.Live && c.Until != nil {
			if expired++; expired == 1 {
				of = c.Slot
			}
		}
	}
	if n == 0 && expired > 0 { // in a slot that is being run, which catch-up leaves to its runners
		return r.found(float64(expired) > threshold, "run --slot "+clock(of), "%s by runners that have died",
			spoken.Count(expired, "claim is held", "claims are held"))
	}
	if rows.N == 0 {
		return r.found(float64(n) > threshold, "catch-up",
			"%s left open since %s: no row waits in %s, or only rows of paused jobs",
			spoken.Count(n, "slot was", "slots were"), r.since(first), them(n))
	}
	remedy, foreign := "catch-up", r.foreign(keep(list, func(t ledger.Trouble) bool {
		return t.State != slots.StateMissed
	}))
	text := fmt.Sprintf("%s stranded in %s since %s: "+
		"runners left before the end of a slot, or rows were committed after a slot was closed",
		rows.Of("row is", "rows are"), spoken.Count(n, "slot", "slots"), r.since(first))
	if len(foreign) > 0 { // catch-up leaves these rows
		remedy = "jobs list --job " + spoken.Word(foreign[0])
		text += ". They are of jobs that are not registered here: " + spoken.List(foreign) +
			". Run catch-up with a binary that has them, or cancel the rows if a name is wrong"
	}
	return r.tell(r.found(float64(n) > threshold, remedy, "%s", text), slots.StateOpen, slots.StateDone)
}

// foreign returns the jobs of the rows in slots if the caller has registered none of them. Its
// catch-up can then do nothing for any of the slots. Otherwise it returns none.
func (r *Report) foreign(list []ledger.Trouble) (names []string) {
	for _, t := range list {
		for _, job := range t.Jobs {
			if r.knows(job.JobExec) {
				return nil
			}
			names = append(names, job.JobExec)
		}
		if len(t.Jobs) == 0 {
			return nil
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func overdue(r *Report, threshold float64) []Finding {
	late := func(t ledger.Trouble) bool {
		return t.Waiting().N > 0 && r.Now.Sub(t.Slot).Seconds() > threshold
	}
	left := keep(r.untold(r.Trouble), func(t ledger.Trouble) bool {
		return !slices.Contains(r.told.states, t.State) && late(t)
	})
	running := keep(r.untold(r.Running), late)
	var oldest time.Time
	var rows ledger.Count
	for _, t := range slices.Concat(left, running) {
		rows = rows.Plus(t.Waiting())
		if oldest.IsZero() || t.Slot.Before(oldest) {
			oldest = t.Slot
		}
	}
	due := rowsOf(slices.DeleteFunc(slices.Clone(r.unopened), func(c ledger.JobCount) bool {
		return c.Paused || r.told.jobs[c.JobExec]
	}))
	unopened := due.N > 0 && r.Now.Sub(r.Current.Slot).Seconds() > threshold
	if unopened {
		rows = rows.Plus(due)
		if oldest.IsZero() {
			oldest = r.Current.Slot
		}
	}
	remedy, foreign := "slots show "+clock(oldest), r.foreign(left)
	switch {
	case unopened: // catch-up leaves the current slot to its run
		remedy = "run --catch-up"
	case len(foreign) > 0:
		remedy = "jobs list --job " + spoken.Word(foreign[0])
	case len(left) > 0:
		remedy = "catch-up"
	}
	return r.found(rows.N > 0, remedy, "%s for more than %s, the oldest since %s",
		rows.Of("row has been due", "rows have been due"), seconds(threshold), r.since(oldest))
}

// keep returns the slots that a test accepts.
func keep(list []ledger.Trouble, test func(t ledger.Trouble) bool) (kept []ledger.Trouble) {
	for _, t := range list {
		if test(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// withErrors is how many jobs a finding quotes the whole error of: an error has up to 2,000 bytes.
const withErrors = 3

func gaveUp(r *Report, threshold float64) (list []Finding) {
	var n int64
	var names []string
	for _, j := range r.Jobs {
		if j.GaveUp == 0 {
			continue
		}
		n += j.GaveUp
		text := fmt.Sprintf("%s (%d)", j.JobExec, j.GaveUp)
		if len(names) < withErrors && j.GaveUpError != "" {
			text = fmt.Sprintf("%s (%d: %s)", j.JobExec, j.GaveUp, oneLine(j.GaveUpError))
		}
		names = append(names, text)
	}
	r.told.gaveUp = float64(n) > threshold
	return r.found(r.told.gaveUp, "jobs history --outcome failed --since 24h",
		"%s up in the last day: %s. Mend the cause first; jobs retry then puts the rows of a job back. "+
			"If you will not retry them, acknowledge them with alerts ack",
		spoken.Count(n, "row was given", "rows were given"), strings.TrimSuffix(spoken.List(names), "."))
}

// failing leaves out jobs whose failed rows were all given up, if gaveUp has told them.
func failing(r *Report, threshold float64) []Finding {
	return failures(r, threshold, func(j *ledger.JobStatus) bool {
		return j.JobExec != schedule.JobExec && (!r.told.gaveUp || retries(j))
	})
}

func publishing(r *Report, threshold float64) []Finding {
	return failures(r, threshold, func(j *ledger.JobStatus) bool { return j.JobExec == schedule.JobExec })
}

// The default thresholds of conditions about jobs, in percent.
const (
	failingOver    = 50
	publishingOver = 0
	slaOver        = 1
)

// Failing reports whether a job is failing: more of its checks failed in the slot that was run last than the
// conditions failing and publishing allow by default.
func Failing(j *ledger.JobStatus) bool {
	if j.JobExec == schedule.JobExec {
		return failsOver(j, publishingOver)
	}
	return failsOver(j, failingOver)
}

// failsOver leaves out rows that were cancelled or acknowledged, because they need no operator any more.
func failsOver(j *ledger.JobStatus, threshold float64) bool {
	return j.LastChecked > 0 && 100*float64(j.LastFailed-j.LastSettled)/float64(j.LastChecked) > threshold
}

// Late reports whether a job is late: it broke its SLA more often than the condition sla allows by default.
func Late(j *ledger.JobStatus) bool { return lateOver(j, slaOver) }

func lateOver(j *ledger.JobStatus, threshold float64) bool {
	return j.SLA > 0 && j.LastLate > 0 && 100*float64(j.Late)/float64(j.Checked) > threshold
}

func failures(r *Report, threshold float64, which func(j *ledger.JobStatus) bool) (list []Finding) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		where := "jobs list"
		if !retries(j) {
			where = "jobs history --outcome failed"
		}
		found := r.found(failsOver(j, threshold) && which(j), where+" --job "+spoken.Word(j.JobExec),
			"%d of %d checks of %s failed in slot %s, which was run last, at %s: %s",
			j.LastFailed, j.LastChecked, j.JobExec, clock(instant(j.LastSlot)), r.since(instant(j.LastAt)), oneLine(j.Error))
		list = append(list, of(j.JobExec, found)...)
	}
	return list
}

// instant returns the zero time for nil.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// retries reports whether rows that failed in the job's last slot wait for a retry.
func retries(j *ledger.JobStatus) bool { return j.LastGaveUp+j.LastSettled < j.LastFailed }

// unserved tells all rows of a job that no run knows, so that no other condition tells them
// again. The rows of a job of this binary in slots that were missed wait for any run: missed tells
// them.
func unserved(r *Report, threshold float64) (list []Finding) {
	var here, nowhere []string
	for _, j := range r.Jobs {
		switch {
		case !j.Unserved:
		case !r.knows(j.JobExec):
			nowhere = append(nowhere, j.JobExec)
		case !slices.ContainsFunc(r.Trouble, func(t ledger.Trouble) bool {
			return t.State == slots.StateMissed && slices.ContainsFunc(t.Jobs, isOf(j.JobExec))
		}):
			here = append(here, j.JobExec)
		}
	}
	if float64(len(here)+len(nowhere)) <= threshold {
		return nil
	}
	if len(nowhere) > 0 {
		list = r.found(true, "jobs list --job "+spoken.Word(nowhere[0]),
			"rows wait for jobs that no run of the last 7 days had: %s. "+
				"Run a binary that has them, or cancel the rows if a name is wrong or its rule was removed",
			r.withDue(nowhere))
	}
	if len(here) > 0 { // nothing has run yet, or an older binary has
		list = append(list, r.found(true, "run --catch-up",
			"rows wait for jobs that this binary has, and that no run of the last 7 days had: %s. "+
				"Let this binary run the slots", r.withDue(here))...)
	}
	r.told.jobs = map[string]bool{}
	for _, job := range slices.Concat(here, nowhere) {
		r.told.jobs[job] = true
	}
	return list
}

// withDue returns the names of jobs, each with the number of its rows that are due.
func (r *Report) withDue(names []string) string {
	due := map[string]ledger.Count{}
	for _, t := range slices.Concat(r.Trouble, r.Running, []ledger.Trouble{{Jobs: r.unopened}}) {
		for _, c := range t.Jobs {
			due[c.JobExec] = due[c.JobExec].Plus(c.Waiting)
		}
	}
	texts := slices.Clone(names)
	for i, name := range names {
		if due[name].N > 0 {
			texts[i] = fmt.Sprintf("%s (%s due)", name, due[name])
		}
	}
	return spoken.List(texts)
}

func isOf(job string) func(c ledger.JobCount) bool {
	return func(c ledger.JobCount) bool { return c.JobExec == job }
}

func slow(r *Report, threshold float64) []Finding {
	percent := 100 * r.Took.Seconds() / r.Grid.Width().Seconds()
	return r.found(percent > threshold, "slots show "+clock(r.Slowest),
		"slot %s has taken %s, %.0f %% of the time until the next one: it needs more runners, more workers, or batches",
		clock(r.Slowest), seconds(r.Took.Seconds()), percent)
}

func sla(r *Report, threshold float64) (list []Finding) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		found := r.found(lateOver(j, threshold), "jobs stats --since 24h",
			"%d of %d checks of %s in the last day began later than %s after their slot, and %d of %d of slot %s, "+
				"which was run last, at %s",
			j.Late, j.Checked, j.JobExec, seconds(time.Duration(j.SLA).Seconds()), j.LastLate, j.LastChecked,
			clock(instant(j.LastSlot)), r.since(instant(j.LastAt)))
		list = append(list, of(j.JobExec, found)...)
	}
	return list
}

func betweenStores(r *Report, threshold float64) (list []Finding) {
	rows := int64(0)
	for _, l := range r.leaving {
		rows += l.Rows
	}
	if rows == 0 {
		return nil
	}
	first := r.leaving[0]
	return r.found(r.Now.Sub(first.Since).Seconds() > threshold, "stores move "+first.From,
		"%s on the way from here to store %s since %s: the move was cut short, and the next one finishes it",
		spoken.Count(rows, "row is", "rows are"), first.To, r.since(first.Since))
}

// found returns one finding if there is a problem, otherwise none.
func (r *Report) found(is bool, remedy, format string, args ...any) []Finding {
	if !is {
		return nil
	}
	return []Finding{{Text: fmt.Sprintf(format, args...), Remedy: remedy}}
}

func them(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func clock(t time.Time) string { return spoken.Instant(t) }

// since returns an instant with its distance from now, for texts. A remedy takes only the instant.
func (r *Report) since(t time.Time) string { return spoken.Since(t, r.Now) }

func seconds(s float64) string {
	return duration.Format(time.Duration(s * float64(time.Second)).Round(time.Second))
}

// oneLine returns an error in one line. It is not cut: its end often says what to do.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
