package forecast

import (
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a forecast. DB must be set; every other zero field means its default.
type Config struct {
	// DB gives one connection.
	DB pgsql.Pool
	// Schema holds the tables. Defaults to "prescient".
	Schema string
	// Now returns the instant that slots are compared with, to replay another time. Defaults to the
	// database's clock.
	Now func() time.Time
	// For is how far ahead the forecast goes, at most MaxSlots. Defaults to 24 hours.
	For time.Duration
	// Registry has the jobs of the binary. With it, the forecast also judges their deadlines and
	// concurrency. Optional.
	Registry *jobs.Registry
	// WhatIf changes what the slots are run with. The zero value changes nothing.
	WhatIf WhatIf
	// Sample bounds the blocks, 8 kB each, that are read of history and of waiting rows. Defaults
	// to 1,000.
	Sample int
}

// MaxSlots bounds the slots of a forecast.
const MaxSlots = 2000

const (
	defaultFor    = 24 * time.Hour
	defaultSample = 1000
)

// Forecast predicts the coming slots, as seen at one moment.
type Forecast struct {
	Grid  grid.Grid     `json:"-"`     // of the slots; the grid of WhatIf if that has a width
	Now   time.Time     `json:"now"`   // when the forecast was made; UTC
	Width duration.Text `json:"width"` // of a slot
	// From is the first slot, which is the next to begin. To is the end, exclusive.
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // the end of the last slot; UTC
	// Runners and Workers are the numbers that the times assume. Workers belong to one runner.
	Runners int `json:"runners"`
	Workers int `json:"workers"` // of each runner, which the times assume
	// Learned is the number of past slots that the times were learned from.
	Learned int `json:"learned_slots"`
	// Overdue is the number of overdue rows that are run beside these slots: the next catch-up takes them. Slots do not
	// include them.
	Overdue        int64         `json:"overdue"`
	OverdueAtLeast bool          `json:"overdue_at_least"` // counting stopped at overdue: there are that many or more
	OverdueTakes   duration.Text `json:"overdue_takes"`    // how long the catch-up takes, by the same model
	Slots          []Slot        `json:"slots"`            // every slot from From to To, in order
	Findings       []Finding     `json:"findings"`         // sorted by slot
	// Notes say in words what limits the forecast.
	Notes []string `json:"notes"`
}

// Slot is the forecast for one slot.
type Slot struct {
	Slot time.Time `json:"slot"`
	// Rows is the number of rows that will be run. It excludes rows of paused jobs, and of jobs
	// that no run knows.
	Rows int64 `json:"rows"`
	// Waiting is the number of rows that wait now. It may exceed Rows if rows are cancelled before
	// their slot.
	Waiting int64 `json:"waiting"`
	// Begins is the time from the slot to the start of its run. Took is how long the run takes.
	Begins duration.Text `json:"begins_after"`
	Took   duration.Text `json:"takes"` // how long the run takes
	Jobs   []Job         `json:"jobs"`  // sorted by name
}

// Job is the forecast for a job's rows in a slot.
type Job struct {
	JobExec string `json:"job_exec"`
	Waiting int64  `json:"waiting"` // waits now; above 1,000 an estimate
	// Expected is the number of rows when the slot is run.
	Expected int64 `json:"rows"`
	// Done is the time from the slot until the last of them is done.
	Done duration.Text `json:"done_after"`
	// Paused or Unserved rows are not run. A job is unserved if no run of the last 7 days
	// had it.
	Paused   bool `json:"paused"`
	Unserved bool `json:"unserved"` // no run of the last 7 days had the job, so its rows are not run
}

// Runs reports whether rows of the job will be run.
func (j Job) Runs() bool { return !j.Paused && !j.Unserved }

// Ends is the time from the slot to the end of its run.
func (s Slot) Ends() time.Duration { return time.Duration(s.Begins + s.Took) }

// Finding is a problem that a slot, or several consecutive slots, will have.
type Finding struct {
	Slot      time.Time `json:"slot"`      // the first slot that the problem is in; UTC
	Slots     int       `json:"slots"`     // how many slots in a row have the problem; Text is about the worst
	Condition Condition `json:"condition"` // too-long, sla or deadline
	JobExec   string    `json:"job_exec"`  // the job whose SLA or deadline breaks; empty: none
	// Text describes the problem in words.
	Text string `json:"text"`
	// Help lists what would help, and by how much, in the same model, or why nothing does.
	Help []string `json:"help"`
}

// Condition is the rule that a finding breaks.
type Condition string

// The conditions.
const (
	// TooLong: slots do not end before the next one begins.
	TooLong Condition = "too-long"
	// SLA: checks will begin later after their slot than the job's SLA allows.
	SLA Condition = "sla"
	// Deadline: rows will be reached after the deadline of their job or schedule, and so be
	// dropped.
	Deadline Condition = "deadline"
)
