package board

import (
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Seen says when a value was read.
type Seen struct {
	AsOf time.Time     `json:"as_of"` // by the database's clock, UTC
	Age  duration.Text `json:"age"`   // at the time of the answer
}

// Overview answers "is it all right?".
type Overview struct {
	Seen
	view.Status
	// Axis has the slots of the last and the next 24 hours, the oldest first. A cell holds several
	// slots if they are narrow.
	Axis []Cell `json:"axis"`
	// Expected has the slots of the next 24 hours that will end late, or break an SLA or a
	// deadline.
	Expected []forecast.Finding `json:"expected"`
	// Schedules are at most 20 schedules that dropped an event or were given up in the last day,
	// the newest first.
	Schedules []Misfire  `json:"schedules"`
	Consumers []Consumer `json:"consumers"`
}

// StateRunning is the state of a Cell that is open, with a runner. The other states are those of view and of slots.
const StateRunning slots.State = "running"

// Cell is a slot, or several consecutive slots.
type Cell struct {
	Slot  time.Time     `json:"slot"`  // the first one
	Span  duration.Text `json:"span"`  // up to the end of the last one
	Slots int64         `json:"slots"` // how many
	State slots.State   `json:"state"` // the worst of them: missed, open, running, due, done, ahead, no ledger
	// Late is true if a slot that is done has rows left, which catch-up takes. Only the overview
	// looks for them.
	Late     bool          `json:"late"`
	Done     int64         `json:"done"`      // slots that were run to their end
	CaughtUp int64         `json:"caught_up"` // slots that catch-up has opened
	Missed   int64         `json:"missed"`    // slots
	Planned  int64         `json:"planned"`   // rows
	Checked  int64         `json:"checked"`
	Failed   int64         `json:"failed"`
	Took     duration.Text `json:"took"` // of the longest slot; so far, if it is open
	// TooLong is true if that, or the forecast of it, is longer than the width. Slots whose rows waited for a lock of
	// another session do not count.
	TooLong bool `json:"too_long"`
	// WaitedFor is a session whose lock rows of the slots have waited for; empty: none.
	WaitedFor string    `json:"waited_for"`
	Forecast  *Forecast `json:"forecast"` // null: the slot has begun, or there is no forecast
}

// Forecast is the expectation of a coming slot.
type Forecast struct {
	Rows int64         `json:"rows"`
	Took duration.Text `json:"took"`
}

// Misfire is a schedule that has not published every event.
type Misfire struct {
	ID        string     `json:"id"`
	Dropped   int64      `json:"dropped"`    // events, since it was created
	DroppedAt *time.Time `json:"dropped_at"` // the last one; null: none
	GaveUpAt  *time.Time `json:"gave_up_at"` // when publishing was given up after its last error; null: it was not
	Error     string     `json:"error"`
}

// Consumer is a reader of the outbox, and how far it is behind.
type Consumer struct {
	outbox.Consumer
	Waiting int64         `json:"waiting"`  // events that it gets, of the first 10,000 behind its position
	Oldest  duration.Text `json:"oldest"`   // how long the first of them has waited; 0: none of them waits
	AtLeast bool          `json:"at_least"` // there are events behind these: that many or more wait
}

// Count returns the number of events.
func (c Consumer) Count() ledger.Count { return ledger.Count{N: c.Waiting, AtLeast: c.AtLeast} }

// Slot is one slot.
type Slot struct {
	Seen
	view.SlotDetail
	Previous time.Time     `json:"previous"` // slot
	Next     time.Time     `json:"next"`
	Width    duration.Text `json:"width"` // 0: the slot has an earlier width
	Rate     float64       `json:"rate"`  // rows a second of that time
	Jobs     []SlotJob     `json:"jobs"`  // with rows in it when it was opened, the most rows first; at most 200
	Forecast *Forecast     `json:"forecast"`
}

// SlotJob is the result of one job in one slot. The counts exist when the slot is done.
type SlotJob struct {
	JobExec     string        `json:"job_exec"`
	Planned     int64         `json:"planned"`
	Finished    int64         `json:"finished"`
	Rescheduled int64         `json:"rescheduled"`
	Failed      int64         `json:"failed"`
	Late        int64         `json:"late"`     // checks that began later than the SLA
	Error       string        `json:"error"`    // of one failed check
	FirstAt     *time.Time    `json:"first_at"` // when the first outcome was recorded
	LastAt      *time.Time    `json:"last_at"`
	Spent       duration.Text `json:"spent"` // run time of all its checks
}

// Jobs is a page of jobs.
type Jobs struct {
	Seen
	Jobs  []JobLine `json:"jobs"`  // the worst first; those of one state by name
	After *string   `json:"after"` // after of the next page; null: this is the last
}

// JobLine is one job, and the results of its checks in the last day.
type JobLine struct {
	ledger.JobStatus
	// State is unserved, overdue, failing, failed, gave up, late, paused, ok or idle: the worst comes first.
	State      JobState         `json:"state"`
	Registered bool             `json:"registered"` // in the binary that serves
	Paused     *admin.PausedJob `json:"paused"`     // null: it is not paused
	view.OverdueRows
}

// Job is one job.
type Job struct {
	Seen
	JobLine
	Width duration.Text `json:"width"` // of the slots
	// From and To are the range of Cells, Days and Errors: the last day, unless the request names another one. The range
	// is [From, To), in whole cells.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Cells have the slots of the range with rows of it, the newest first. A cell is one slot, or several of a long range.
	Cells []JobCell `json:"cells"`
	Days  []JobDay  `json:"days"` // of the range, the newest first
	// LastSlot is the last slot with rows of it in the 2,880 slots before the end of the range. Null: there is no such
	// slot, or Cells has some.
	LastSlot *time.Time `json:"last_slot"`
	// Ahead counts its waiting rows in those of the next 96 slots that have any.
	Ahead  []Ahead    `json:"ahead"`
	Errors []JobError `json:"errors"` // of the range, the newest first, at most 20
}

// JobAdvice says what history advises about when to check the rows of a job.
type JobAdvice struct {
	Seen
	JobExec string   `json:"job_exec"`
	Read    int64    `json:"read"`   // how many of the newest rows of history, of any job, were read
	Advice  []string `json:"advice"` // sentences; none if no such row was of the job
}

// JobCell is the result of a job in one slot, or in several consecutive slots.
type JobCell struct {
	Slot  time.Time     `json:"slot"`  // the first one
	Span  duration.Text `json:"span"`  // up to the end of the last one
	Slots int64         `json:"slots"` // how many of them had rows of the job
	Became
	Planned int64         `json:"planned"`
	Took    duration.Text `json:"took"` // from the opening of a slot to its last row; the longest of the slots
	Rate    float64       `json:"rate"` // rows a second of the time of all
}

// JobDay is the result of a job in the slots of one day, in UTC.
type JobDay struct {
	Day   string `json:"day"` // such as 2026-03-01
	Slots int64  `json:"slots"`
	Became
}

// Became counts the results of checks.
type Became struct {
	Finished    int64         `json:"finished"`
	Rescheduled int64         `json:"rescheduled"`
	Failed      int64         `json:"failed"`
	Late        int64         `json:"late"`
	Spent       duration.Text `json:"spent"`
}

// Checked returns the number of checks.
func (b Became) Checked() int64 { return b.Finished + b.Rescheduled + b.Failed }

// Ahead counts the rows that wait for a slot.
type Ahead struct {
	Slot    time.Time `json:"slot"`
	Rows    int64     `json:"rows"`
	AtLeast bool      `json:"at_least"` // counting stopped at rows: there are that many or more
}

// Count returns the number of rows.
func (a Ahead) Count() ledger.Count { return ledger.Count{N: a.Rows, AtLeast: a.AtLeast} }

// JobError is an error of a job in a slot.
type JobError struct {
	Slot   time.Time `json:"slot"`
	Failed int64     `json:"failed"` // checks in the slot; the error is that of one of them
	Error  string    `json:"error"`
}

// Entity is the timeline of the checks of an entity.
type Entity struct {
	Seen
	EntityName string     `json:"entity_name"`
	EntityKey  string     `json:"entity_key"`
	Timeline   []Sentence `json:"timeline"` // row by row, in order; the last 1000
	Waiting    int64      `json:"waiting"`  // keyed checks
	Kinds      []string   `json:"kinds"`    // entity names that have this key, if nothing is known of this entity
	More       bool       `json:"more"`     // the timeline is longer
	// Checks are rows of the timeline with their payloads: those that wait, in the order of their slots, and then those
	// that have ended, the latest first. Of each there are at most 50, and at most 4 MiB of payloads.
	Checks []view.CheckData `json:"checks"`
}

// Sentence is one event of a timeline, with a text for people.
type Sentence struct {
	view.Event
	Text string `json:"text"` // for a person
}

// Schedules is a page of schedules.
type Schedules struct {
	Seen
	Schedules []scheduleapi.View `json:"schedules"` // by id
	// of the next page, null on the last one; a page ends after 4 MiB of payloads
	After *string `json:"after"`
}

// Schedule is one schedule.
type Schedule struct {
	Seen
	scheduleapi.Detail
}

// Ledger is a heat map: a row for each day, the newest first, and a cell for each slot of the day.
// If slots are narrower than 15 minutes, a day has 96 cells.
type Ledger struct {
	Seen
	Width duration.Text `json:"width"`
	Since time.Time     `json:"since"` // the beginning of the ledger
	Days  []LedgerDay   `json:"days"`
}

// LedgerDay is a day of the ledger, in UTC.
type LedgerDay struct {
	Day   string `json:"day"` // such as 2026-03-01
	Cells []Cell `json:"cells"`
}

// Events is a page of the outbox, and its readers.
type Events struct {
	Seen
	Events    []Event    `json:"events"` // the newest first
	After     *string    `json:"after"`  // of the next page; null: this is the last
	Consumers []Consumer `json:"consumers"`
}

// DeadLetters is a page of dead letters.
type DeadLetters struct {
	Seen
	DeadLetters []view.DeadLetter `json:"dead_letters"` // in the order in which they are sent again
	// After begins the next page; null: nothing follows. A page ends after limit dead letters, or 4 MiB of data.
	After *string `json:"after"`
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

// History lists ended rows, the latest first.
type History struct {
	Seen
	Checks []view.Ended `json:"checks"`
	// After begins the next page; null: nothing follows. A page ends after limit checks, or 4 MiB of
	// payloads.
	After *string `json:"after"`
	// Since is how far back the search went; there may be more before. Null: it went through all of
	// history.
	Since *time.Time `json:"since"`
}

// Waiting lists waiting checks, in the order of their slots.
type Waiting struct {
	Seen
	Checks []view.Check `json:"checks"`
	// After begins the next page; null: nothing follows. A page ends after limit checks, or 4 MiB of
	// payloads. Checks that come or go before it do not shift it.
	After *string `json:"after"`
}

// Alerts lists the findings that alerts.receiver was told of, and those that are silenced, by name.
type Alerts struct {
	Seen
	Alerts []view.Alert `json:"alerts"`
}

// Actions is a page of the actions of operators, the newest first.
type Actions struct {
	Seen
	Actions []Done  `json:"actions"`
	After   *string `json:"after"` // of the next page; null: this is the last
}
