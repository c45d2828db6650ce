package forecast

import (
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a forecast. DB must be set; every other zero field means its default.
type Config struct {
	// DB gives one connection.
	DB pgsql.Pool
	// Schema holds the tables. Default "prescient".
	Schema string
	// Now is what slots are compared with, for a replay of the past or the future. Default: the database's clock.
	Now func() time.Time
	// For is how far ahead it looks, no further than MostSlots. Default 24 hours.
	For time.Duration
	// Registry has the jobs of the binary: what it knows of their deadlines and their concurrency is judged, too. Default: none.
	Registry *jobs.Registry
	// WhatIf changes what the slots are run with.
	WhatIf WhatIf
	// Sample is how many blocks of history and of what waits are read at the most, 8 kB each. Default 1,000.
	Sample int
}

// MostSlots is how many slots a forecast has at the most.
const MostSlots = 2000

const (
	defaultFor    = 24 * time.Hour
	defaultSample = 1000
)

// Forecast is what the slots to come will bring, as seen at one moment.
type Forecast struct {
	Now  time.Time
	Grid grid.Grid // of the slots: that of WhatIf, where it has a width
	// From is the first slot, the next one; To is the one to stop before.
	From, To time.Time
	Slots    []Slot // every slot from From to To, in order
	// Runners and Workers are what the times are for: workers are those of one runner.
	Runners, Workers int
	// Learned is how many slots of the past the times were learned from.
	Learned  int
	Findings []Finding // in the order of slots
	// Notes tell, for a person, in what way the forecast is less than it could be.
	Notes []string
}

// Slot is what one slot will bring.
type Slot struct {
	Slot time.Time
	// Rows is how many rows are to be run; those of jobs that are paused, or that no run knows, are not among them.
	Rows int64
	// Waiting of them are there now. It may be more than Rows, where rows are cancelled before their slot.
	Waiting int64
	Jobs    []Job // in the order of their names
	// Begins is how long after the slot its run begins, and Took how long that takes.
	Begins, Took time.Duration
}

// Job is the rows of a job in a slot.
type Job struct {
	JobExec string
	Waiting int64 // there now; above 1,000 an estimate
	// Expected is how many there will be when the slot is run.
	Expected int64
	// Done is how long after the slot the last of them will be done.
	Done time.Duration
	// Paused and Unregistered rows (no run of the last 7 days knows the job) are not run.
	Paused, Unregistered bool
}

// Runs tells whether rows of the job are going to be run.
func (j Job) Runs() bool { return !j.Paused && !j.Unregistered }

// Ends is how long after the slot its run ends.
func (s Slot) Ends() time.Duration { return s.Begins + s.Took }

// Finding is what will go wrong in a slot, or in several that follow each other.
type Finding struct {
	Slot      time.Time // the first
	Slots     int       // how many
	Condition Condition
	JobExec   string // whose SLA or deadline it is; empty: no one's
	// Text says what is so, for a person.
	Text string
	// Help says what would help, and by how much, as the same model has it; none: nothing known does.
	Help []string
}

// Condition is what does not hold.
type Condition string

// The conditions.
const (
	// TooLong slots do not end before the next one begins.
	TooLong Condition = "too-long"
	// SLA: checks will begin later after their slot than the job's SLA.
	SLA Condition = "sla"
	// Deadline: rows will be reached later than the deadline of their job, or their schedule, and so be dropped.
	Deadline Condition = "deadline"
)
