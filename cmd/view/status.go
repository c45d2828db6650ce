package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Status is health.Report as JSON.
type Status struct {
	Database      Database      `json:"database"`
	OK            bool          `json:"ok"` // there are no findings
	Findings      []Finding     `json:"findings"`
	Now           time.Time     `json:"now"`
	Width         duration.Text `json:"width"`
	Since         time.Time     `json:"since"` // the beginning of the ledger
	CurrentSlot   time.Time     `json:"current_slot"`
	CurrentState  slots.State   `json:"current_state"` // empty: no run has opened it yet
	NextSlot      time.Time     `json:"next_slot"`
	Overdue       int64         `json:"overdue"`
	Missed        []Trouble     `json:"missed"`
	MoreMissed    int64         `json:"more_missed"` // missed slots that missed leaves out
	MoreOpen      int64         `json:"more_open"`   // open slots that left_open leaves out
	LeftOpen      []Trouble     `json:"left_open"`
	Stragglers    []Trouble     `json:"stragglers"`
	Running       []Trouble     `json:"running"`
	Paused        []Paused      `json:"paused"`
	Claims        []Claim       `json:"claims"`
	ClaimsLive    int           `json:"claims_live"` // of rows
	ClaimsExpired int           `json:"claims_expired"`
	NotRegistered []string      `json:"not_registered"` // jobs with rows in trouble that this binary lacks
	Jobs          []JobStatus   `json:"jobs"`           // with checks or given-up rows in the last day, or unregistered
	// slots with checks that began later than the SLA of their job, newest first
	LateSlots []LateSlot `json:"late_slots"`

	Trouble []Trouble        `json:"-"` // all slots in trouble, in order
	Due     map[string]int64 `json:"-"` // rows that no runner works on, by job; see health.Report
}

// Trouble is ledger.Trouble as JSON.
type Trouble struct {
	Slot    time.Time `json:"slot"`
	Waiting int64     `json:"waiting"`
	Jobs    []Waiting `json:"jobs"`

	State slots.State `json:"-"`
}

// NewStatus returns a report as JSON, without Database. self is how to call the binary. has reports
// whether the caller has registered a job.
func NewStatus(s health.Report, paused []admin.PausedJob, self string, has func(job string) bool) Status {
	trouble := newTrouble(s.Trouble, has)
	v := Status{
		Now: s.Now.UTC(), Width: duration.Text(s.Grid.Width()), Since: s.Since,
		CurrentSlot: s.Current.Slot, CurrentState: s.Current.State, NextSlot: s.Grid.Next(s.Now),
		Overdue: s.Overdue(), MoreMissed: s.MoreMissed, MoreOpen: s.MoreOpen,
		Missed: inState(trouble, slots.StateMissed), LeftOpen: inState(trouble, slots.StateOpen),
		Stragglers: inState(trouble, slots.StateDone), Running: inState(newTrouble(s.Running, has), slots.StateOpen),
		Paused: []Paused{}, Claims: NewClaims(s.Claims), NotRegistered: notRegistered(trouble), Trouble: trouble,
	}
	for _, p := range paused {
		v.Paused = append(v.Paused, Paused(p))
	}
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
	v.Due = s.Due
	v.Jobs, v.LateSlots = NewJobStatus(s.Jobs), newLateSlots(s.LateSlots)
	return v
}

func newTrouble(list []ledger.Trouble, has func(job string) bool) []Trouble {
	var views []Trouble
	for _, t := range list {
		views = append(views, Trouble{t.Slot, t.Waiting, NewWaiting(t.Jobs, nil, has), t.State})
	}
	return views
}

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

// Paused is admin.PausedJob as JSON.
type Paused struct {
	JobExec  string    `json:"job_exec"`
	PausedAt time.Time `json:"paused_at"`
	PausedBy string    `json:"paused_by"`
}

// Finding is health.Finding as JSON.
type Finding struct {
	Condition string `json:"condition"`
	Text      string `json:"text"`
	Remedy    string `json:"remedy"` // the command that solves it or tells more; empty: none
	Job       string `json:"job"`    // the job of the finding; empty: not about one job
}

// NewFindings returns findings as JSON. self is how to call the binary.
func NewFindings(list []health.Finding, self string) []Finding {
	views := []Finding{}
	for _, f := range list {
		v := Finding(f)
		if v.Remedy != "" {
			v.Remedy = self + " " + v.Remedy
		}
		views = append(views, v)
	}
	return views
}

// JobStatus is ledger.JobStatus as JSON.
type JobStatus struct {
	JobExec      string        `json:"job_exec"`
	RegisteredAt *time.Time    `json:"registered_at"` // when a run last knew it, to the hour; null: never
	Unregistered bool          `json:"unregistered"`  // it has waiting rows, but no run of the last 7 days knew it
	Checked      int64         `json:"checked"`
	Failed       int64         `json:"failed"`
	GaveUp       int64         `json:"gave_up"`
	MaxChecks    int64         `json:"max_checks"`
	LastSlot     *time.Time    `json:"last_slot"` // null: none in the last day
	LastChecked  int64         `json:"last_checked"`
	LastFailed   int64         `json:"last_failed"`
	LastLate     int64         `json:"last_late"`
	LastAt       *time.Time    `json:"last_at"`
	Error        string        `json:"error"`
	SLA          duration.Text `json:"sla"` // 0: none
	Late         int64         `json:"late"`
	LatenessP50  duration.Text `json:"lateness_p50"`
	LatenessP99  duration.Text `json:"lateness_p99"`
}

// NewJobStatus returns the states of jobs as JSON.
func NewJobStatus(list []ledger.JobStatus) []JobStatus {
	views := []JobStatus{}
	for _, j := range list {
		views = append(views, JobStatus{
			j.JobExec, TimeOrNil(j.RegisteredAt), j.Unregistered, j.Checked, j.Failed, j.GaveUp, j.MaxChecks,
			TimeOrNil(j.LastSlot), j.LastChecked, j.LastFailed, j.LastLate, TimeOrNil(j.LastAt),
			j.Error, duration.Text(j.SLA), j.Late, duration.Text(j.LatenessP50), duration.Text(j.LatenessP99),
		})
	}
	return views
}

// LateSlot is ledger.LateSlot as JSON.
type LateSlot struct {
	Slot    time.Time `json:"slot"`
	JobExec string    `json:"job_exec"`
	Checked int64     `json:"checked"`
	Late    int64     `json:"late"`
}

func newLateSlots(list []ledger.LateSlot) []LateSlot {
	views := []LateSlot{}
	for _, s := range list {
		views = append(views, LateSlot(s))
	}
	return views
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
	Schema string `json:"schema"`
}

// String returns a text such as "shop on 10.0.0.5, schema prescient, PostgreSQL 15.18".
func (v Database) String() string {
	where := cmp.Or(v.Host, "a local socket")
	if v.Private != "" {
		where = "the private PostgreSQL in " + v.Private
	}
	return fmt.Sprintf("%s on %s, schema %s, PostgreSQL %s", v.Database, where, v.Schema, v.Version)
}

// Kept returns the share of checks that kept the SLA.
func (j JobStatus) Kept() string {
	if j.Checked == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(j.Checked-j.Late)/float64(j.Checked))
}
