package board

import (
	"time"

	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/slots"
)

// Seen says when something was read.
type Seen struct {
	AsOf time.Time     `json:"as_of"` // by the database's clock, UTC
	Age  duration.Text `json:"age"`   // how long ago that was when it was answered
}

// Overview answers "is it all right?".
type Overview struct {
	Seen
	view.Status
	// Axis is the slots of the last and the next 24 hours, the oldest first; where they are narrow, several are one cell.
	Axis []Cell `json:"axis"`
	// Expected is which slots of the next 24 hours will not end in time, or break an SLA or a deadline.
	Expected []Expected `json:"expected"`
	// Schedules are those that have dropped an event or were given up in the last day, the newest first, at the most 20.
	Schedules []Misfire  `json:"schedules"`
	Consumers []Consumer `json:"consumers"`
}

// The states of a Cell, beside slots.StateMissed, slots.StateOpen and slots.StateDone.
const (
	StateRunning  slots.State = "running"   // open, and a runner is at it
	StateDue      slots.State = "due"       // begun, and no run has opened it yet
	StateAhead    slots.State = "ahead"     // not begun
	StateNoLedger slots.State = "no ledger" // before the ledger begins
)

// Cell is a slot, or several that follow each other.
type Cell struct {
	Slot  time.Time     `json:"slot"`  // the first
	Span  duration.Text `json:"span"`  // to the end of the last
	Slots int64         `json:"slots"` // how many
	State slots.State   `json:"state"` // the worst of them: missed, open, running, due, done, ahead, no ledger
	// Late tells that rows are left in a slot of it that was done, which catch-up takes; the overview alone looks for them.
	Late     bool          `json:"late"`
	Done     int64         `json:"done"`      // slots of it that were run to their end
	CaughtUp int64         `json:"caught_up"` // slots of it that catch-up has opened
	Missed   int64         `json:"missed"`    // slots of it
	Planned  int64         `json:"planned"`   // rows
	Checked  int64         `json:"checked"`
	Failed   int64         `json:"failed"`
	Took     duration.Text `json:"took"`     // the longest of them; of one that is open, so far
	TooLong  bool          `json:"too_long"` // that was longer than the width, or the forecast is
	Forecast *Forecast     `json:"forecast"` // null: it has begun, or nothing is forecast
}

// Forecast is what a slot ahead is expected to be like.
type Forecast struct {
	Rows int64         `json:"rows"`
	Took duration.Text `json:"took"`
}

// Expected is what will go wrong in a slot, or in several that follow each other.
type Expected struct {
	Slot      time.Time `json:"slot"` // the first
	Slots     int       `json:"slots"`
	Condition string    `json:"condition"` // too-long, sla or deadline
	JobExec   string    `json:"job_exec"`  // whose SLA or deadline it is; empty: no one's
	Text      string    `json:"text"`
	Help      []string  `json:"help"` // what would help, and by how much
}

// Misfire is a schedule that has not published all it should.
type Misfire struct {
	ID        string     `json:"id"`
	Dropped   int64      `json:"dropped"`    // events, since it was created
	DroppedAt *time.Time `json:"dropped_at"` // the last of them; null: none
	GaveUpAt  *time.Time `json:"gave_up_at"` // when it was given up after its last error; null: it was not
	Error     string     `json:"error"`
}

// Consumer is who reads the outbox, and how far behind.
type Consumer struct {
	view.Consumer
	Waiting int64         `json:"waiting"` // events, counted up to 1,000
	Oldest  duration.Text `json:"oldest"`  // how long the first of them has waited; 0: none does
}

// Slot is one slot.
type Slot struct {
	Seen
	view.SlotDetail
	Previous time.Time     `json:"previous"` // slot
	Next     time.Time     `json:"next"`
	Width    duration.Text `json:"width"` // 0: the ledger has the slot from before the width was changed
	Took     duration.Text `json:"took"`  // so far, where it is open
	Rate     float64       `json:"rate"`  // rows a second of that
	Jobs     []SlotJob     `json:"jobs"`  // that had rows in it when it was opened, the most rows first; at most 200
	Forecast *Forecast     `json:"forecast"`
}

// SlotJob is what became of the rows of one job in one slot. The counts are there when the slot is done.
type SlotJob struct {
	JobExec     string        `json:"job_exec"`
	Planned     int64         `json:"planned"`
	Finished    int64         `json:"finished"`
	Rescheduled int64         `json:"rescheduled"`
	Failed      int64         `json:"failed"`
	Late        int64         `json:"late"`     // checks that began later than its SLA
	Error       string        `json:"error"`    // of one that failed
	FirstAt     *time.Time    `json:"first_at"` // when the first was recorded
	LastAt      *time.Time    `json:"last_at"`
	Spent       duration.Text `json:"spent"` // run time of all its checks
}

// Jobs is every job.
type Jobs struct {
	Seen
	Jobs []JobLine `json:"jobs"` // by name, at most 500
	More bool      `json:"more"` // there are more
}

// JobLine is one job, and how its checks have gone in the last day.
type JobLine struct {
	view.JobStatus
	Registered bool         `json:"registered"` // with the binary that serves
	Paused     *view.Paused `json:"paused"`     // null: it is not
}

// Job is one job.
type Job struct {
	Seen
	JobLine
	Slots []JobSlot `json:"slots"` // that it had rows in, of the last 2,880 slots, the newest 200 first
	Days  []JobDay  `json:"days"`  // of those slots, the newest first
	// Ahead is how many of its rows wait in the next 96 slots, where there are any, each counted up to 1,000.
	Ahead  []Ahead    `json:"ahead"`
	Errors []JobError `json:"errors"` // of those slots, the newest first, at most 20
}

// JobAdvice is what history advises on when to check the rows of a job.
type JobAdvice struct {
	Seen
	JobExec string   `json:"job_exec"`
	Read    int64    `json:"read"`   // the newest rows of history, of any job, that were looked at
	Advice  []string `json:"advice"` // sentences; none: no such row was of the job
}

// JobSlot is a job in one slot.
type JobSlot struct {
	Slot time.Time `json:"slot"`
	Became
	Planned int64         `json:"planned"`
	Took    duration.Text `json:"took"` // from the opening of the slot to its last row
	Rate    float64       `json:"rate"` // rows a second of that
}

// JobDay is a job in the slots of one day, in UTC.
type JobDay struct {
	Day   string `json:"day"` // such as 2026-03-01
	Slots int64  `json:"slots"`
	Became
}

// Became is what became of rows.
type Became struct {
	Finished    int64         `json:"finished"`
	Rescheduled int64         `json:"rescheduled"`
	Failed      int64         `json:"failed"`
	Late        int64         `json:"late"`
	Spent       duration.Text `json:"spent"`
}

// Ahead is rows that wait for a slot.
type Ahead struct {
	Slot time.Time `json:"slot"`
	Rows int64     `json:"rows"`
}

// JobError is an error of a job in a slot.
type JobError struct {
	Slot   time.Time `json:"slot"`
	Failed int64     `json:"failed"` // checks in the slot; the error is of one of them
	Error  string    `json:"error"`
}

// Entity is the story of the checks of an entity.
type Entity struct {
	Seen
	EntityName string     `json:"entity_name"`
	EntityKey  string     `json:"entity_key"`
	Story      []Sentence `json:"story"`   // row by row, in order; the last 1000
	Waiting    int64      `json:"waiting"` // checks that have a key
	More       bool       `json:"more"`    // the story is longer
}

// Sentence is one thing that happened.
type Sentence struct {
	view.Event
	Text string `json:"text"` // for a person
}

// Schedules is a page of schedules.
type Schedules struct {
	Seen
	Schedules []httpapi.View `json:"schedules"` // by id
	After     *string        `json:"after"`     // of the next page, which begins after 4 MiB of payloads at the latest; null: this is the last
}

// Schedule is one schedule.
type Schedule struct {
	Seen
	httpapi.View
	Coming []Instant `json:"coming"` // the next 20 instants
}

// Instant is one of a schedule.
type Instant struct {
	Instant time.Time `json:"instant"`
	Slot    time.Time `json:"slot"`
}

// Ledger is a heat map: a row for each day, the newest first, and a cell for each slot of the day, or 96 cells where slots are
// narrower than 15 minutes.
type Ledger struct {
	Seen
	Width duration.Text `json:"width"`
	Since time.Time     `json:"since"` // where the ledger begins
	Days  []LedgerDay   `json:"days"`
}

// LedgerDay is a day of the ledger, in UTC.
type LedgerDay struct {
	Day   string `json:"day"` // such as 2026-03-01
	Cells []Cell `json:"cells"`
}

// Events is a page of the outbox, and who reads it.
type Events struct {
	Seen
	Events    []Event    `json:"events"` // the newest first
	Consumers []Consumer `json:"consumers"`
	// Dead are the first dead letters, at most 100, in the order in which they are sent again.
	Dead []view.DeadLetter `json:"dead"`
}

// Event is an event in the outbox.
type Event struct {
	Position  string     `json:"position"`
	ID        string     `json:"id"`
	Source    string     `json:"source"`
	Type      string     `json:"type"`
	Subject   string     `json:"subject"`
	Time      *time.Time `json:"time"`
	WrittenAt time.Time  `json:"written_at"`
	Data      string     `json:"data"` // JSON, the first 2,000 bytes
}

// History is ended checks, the latest first.
type History struct {
	Seen
	Checks []view.Ended `json:"checks"`
	More   bool         `json:"more"` // others match, too: a page ends after limit checks, or 4 MiB of payloads
	// Since is how far back was looked: further back there may be more. Null: at all of it.
	Since *time.Time `json:"since"`
}

// Waiting is checks that wait, in the order of their slots.
type Waiting struct {
	Seen
	Checks []view.Check `json:"checks"`
	More   bool         `json:"more"` // others match, too: a page ends after limit checks, or 4 MiB of payloads
}

// Actions is what operators have done, the newest first.
type Actions struct {
	Seen
	Actions []Done `json:"actions"`
}
