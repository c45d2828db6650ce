package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Status is health.Report as JSON.
type Status struct {
	Database     Database         `json:"database"`
	OK           bool             `json:"ok"` // there are no findings
	Findings     []health.Finding `json:"findings"`
	Now          time.Time        `json:"now"` // by the clock of the database; UTC
	Width        duration.Text    `json:"width"`
	Since        time.Time        `json:"since"`         // the beginning of the ledger
	CurrentSlot  time.Time        `json:"current_slot"`  // the slot that has begun; UTC
	CurrentState slots.State      `json:"current_state"` // empty: no run has opened it yet
	NextSlot     time.Time        `json:"next_slot"`     // the slot that begins next; UTC
	OverdueRows
	// no run has opened them; of those with rows and of those without the oldest 1,000
	Missed        []Trouble          `json:"missed"`
	MoreMissed    int64              `json:"more_missed"` // missed slots that missed leaves out
	MoreOpen      int64              `json:"more_open"`   // open slots that left_open leaves out
	LeftOpen      []Trouble          `json:"left_open"`   // no run works on them, and they are not done; the oldest 1,000
	Stragglers    []Trouble          `json:"stragglers"`  // done slots to which rows came after they were closed
	Running       []Trouble          `json:"running"`     // past slots that a run works on
	Paused        []admin.PausedJob  `json:"paused"`
	Claims        []ledger.Claim     `json:"claims"`         // of open slots
	ClaimsLive    int                `json:"claims_live"`    // claims with rows whose lease has not ended
	ClaimsExpired int                `json:"claims_expired"` // claims with rows whose lease has ended
	NotRegistered []string           `json:"not_registered"` // jobs with rows in trouble that are not registered here
	Jobs          []ledger.JobStatus `json:"jobs"`           // with checks or lost rows in the last day, or unserved
	// slots with checks that began later than the SLA of their job, newest first
	LateSlots []ledger.LateSlot `json:"late_slots"`
	// OpenedLate sums up the slots that were opened late in the last 24 hours, such as after an outage.
	OpenedLate ledger.OpenedLate `json:"opened_late"`

	LastRun *ledger.LastRun `json:"last_run"` // the run that did something last; null: none did
	// the session whose lock rows of the current slot have waited for; empty: none
	WaitedFor string `json:"waited_for"`

	Trouble []Trouble               `json:"-"` // all slots in trouble, in order
	Due     map[string]ledger.Count `json:"-"` // overdue rows, by job
}

// Trouble is ledger.Trouble as JSON.
type Trouble struct {
	Slot    time.Time `json:"slot"`
	Waiting int64     `json:"waiting"` // rows
	Jobs    []Waiting `json:"jobs"`
	AtLeast bool      `json:"at_least"` // counting stopped at waiting: there are that many or more
	// the session whose lock its rows have waited for; empty: none
	WaitedFor string `json:"waited_for"`

	State slots.State `json:"-"`
}

// NewStatus returns a report as JSON, without Database. self is how to call the binary. has reports
// whether the caller has registered a job.
func NewStatus(s health.Report, paused []admin.PausedJob, self string, has func(job string) bool) Status {
	trouble := newTrouble(s.Trouble, has)
	v := Status{
		Now: s.Now.UTC(), Width: duration.Text(s.Grid.Width()), Since: s.Since,
		CurrentSlot: s.Current.Slot, CurrentState: s.Current.State, NextSlot: s.Grid.Next(s.Now),
		MoreMissed: s.MoreMissed, MoreOpen: s.MoreOpen,
		Missed: inState(trouble, slots.StateMissed), LeftOpen: inState(trouble, slots.StateOpen),
		Stragglers: inState(trouble, slots.StateDone), Running: inState(newTrouble(s.Running, has), slots.StateOpen),
		Paused: append([]admin.PausedJob{}, paused...), Claims: append([]ledger.Claim{}, s.Claims...),
		NotRegistered: notRegistered(trouble),
		Trouble:       trouble,
	}
	v.LastRun, v.WaitedFor, v.OpenedLate = s.Last, s.Current.WaitedFor, s.OpenedLate
	for _, c := range v.Claims {
		switch {
		case len(c.Jobs) == 0: // its runner is at the slot, or was
		case c.Live:
			v.ClaimsLive++
		case c.Until != nil:
			v.ClaimsExpired++
		}
	}
	v.OK, v.Findings = len(s.Findings) == 0, NewFindings(s.Findings, self)
	v.OverdueRows, v.Due = NewOverdueRows(s.OverdueCount()), s.Due
	v.Jobs, v.LateSlots = append([]ledger.JobStatus{}, s.Jobs...), append([]ledger.LateSlot{}, s.LateSlots...)
	return v
}

func newTrouble(list []ledger.Trouble, has func(job string) bool) []Trouble {
	var views []Trouble
	for _, t := range list {
		n := t.Waiting()
		views = append(views, Trouble{t.Slot, n.N, newWaiting(t.Jobs, has), n.AtLeast, t.WaitedFor, t.State})
	}
	return views
}

// Count returns the number of rows that wait in the slot.
func (t Trouble) Count() ledger.Count { return ledger.Count{N: t.Waiting, AtLeast: t.AtLeast} }

func inState(list []Trouble, state slots.State) []Trouble {
	views := []Trouble{}
	for _, t := range list {
		if t.State == state {
			views = append(views, t)
		}
	}
	return views
}

// notRegistered returns the jobs in trouble that no command of this binary can check, in order.
func notRegistered(list []Trouble) []string {
	names := []string{}
	for _, t := range list {
		for _, job := range t.Jobs {
			if !job.Registered {
				names = append(names, job.JobExec)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NewFindings returns findings whose remedies are whole commands. self is how to call the binary.
func NewFindings(list []health.Finding, self string) []health.Finding {
	views := []health.Finding{}
	for _, v := range list {
		if v.Remedy != "" {
			v.Remedy = self + " " + v.Remedy
		}
		views = append(views, v)
	}
	return views
}

// Current says which slot has begun, and whether a run has opened it.
func (v Status) Current() string {
	state := string(v.CurrentState)
	left := slices.ContainsFunc(v.LeftOpen, func(t Trouble) bool { return t.Slot.Equal(v.CurrentSlot) })
	switch {
	case left && v.WaitedFor != "":
		state = "left open: rows have waited for a lock of " + v.WaitedFor
	case left:
		state = "left open"
	case v.CurrentState == slots.StateOpen && v.WaitedFor != "":
		state += ", and rows wait for a lock of " + v.WaitedFor
	case v.CurrentState == "" && v.CurrentSlot.Before(v.Since):
		state = "not opened"
	case v.CurrentState == "":
		state = "not opened: its run is due"
	}
	return fmt.Sprintf("%s, %s", spoken.Since(v.CurrentSlot, v.Now), state)
}

// NeverRun says of a ledger without a slot what to do.
const NeverRun = `no slot has been run yet: begin with "run" from cron, or with the daemon`

// Last says when the last run was, and of which machine and process.
func (v Status) Last() string {
	r := v.LastRun
	if r == nil {
		return NeverRun
	}
	at := r.OpenedAt
	if r.FinishedAt != nil {
		at = *r.FinishedAt
	}
	of := map[slots.Kind]string{slots.KindCatchUp: "catch-up of ", slots.KindByHand: "jobs run in "}[r.Kind]
	return fmt.Sprintf("%s, %sslot %s by %s", spoken.Since(at, v.Now), of, spoken.Instant(r.Slot), r.Runner)
}

// TimeOrNil returns nil for the zero time.
func TimeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Database says which database a command has used.
type Database struct {
	Private string `json:"private"` // the directory of the private database; empty: another one
	pgsql.Server
	Schema string `json:"schema"` // that has prescient's tables
}

// String returns a text such as "shop on 10.0.0.5, schema prescient, PostgreSQL 15.18".
func (v Database) String() string {
	where := cmp.Or(v.Host, "a local socket")
	if v.Private != "" {
		where = "the private PostgreSQL in " + v.Private
	}
	return fmt.Sprintf("%s on %s, schema %s, PostgreSQL %s", v.Database, where, v.Schema, v.Version)
}
