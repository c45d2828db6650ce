package rule

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Step is a time, and what to do then. It has at least one of Event, SQL, Job and Notify. The payload of the event
// and of the job is the row as it was before the statement.
type Step struct {
	// Name identifies the step among those of its rule, also after others were added or removed. Defaults to the
	// Event, without one to the Job, and without both to "sql" or, without SQL, to "notify" and the receiver. Another
	// step without a name must not have the same default. It does not end as the name of a repetition does, see
	// Repetition.
	Name string `json:"name"`
	// After is the delay since Rule.Since. Before counts backwards from it. At most one of them is set.
	After  Delay `json:"after,omitzero"`
	Before Delay `json:"before,omitzero"`
	// Interval is the delay of a row that its data hold, as SQL of type interval. If it is null, the step does
	// not fire for the row. After is then the least delay, and the zero value means that it is not known. Empty:
	// the delay is After or Before.
	Interval string `json:"interval,omitempty"`
	// Every is the delay from one time that the step fires to the next, counted from the first time. EveryInterval is the
	// same for a row whose data hold it, as SQL of type interval. If it is null, or not longer than nothing, the step
	// fires once for the row. Without both, it fires once for each row.
	Every         Delay  `json:"every,omitzero"`
	EveryInterval string `json:"every_interval,omitempty"`
	// Times is how often a step fires that repeats, the first time included. 0: until the row is done. TimesCount is the
	// same for a row whose data hold it, as SQL of a type of whole numbers. If it is null, the step fires until the row
	// is done. If it is less than 1, the step does not fire.
	Times      int    `json:"times,omitempty"`
	TimesCount string `json:"times_count,omitempty"`
	// Calendar names the calendar of a delay in business time. CalendarName does so for a row whose data hold the name, as
	// SQL of type text. If it is null, or no calendar has the name, the check of the row fails. At most one is set.
	Calendar     string `json:"calendar,omitempty"`
	CalendarName string `json:"calendar_name,omitempty"`
	// Event is the type of an event to publish.
	Event string `json:"event,omitempty"`
	// SQL is a statement to execute in the transaction that records the check, in the zone of the rule or of the row.
	// $key, $since, $now, $step, $number and $payload stand for values.
	SQL string `json:"sql,omitempty"`
	// Job is a job to enqueue for the same entity.
	Job string `json:"job,omitempty"`
	// Notify is a message to people.
	Notify
	// Line is the line of the step in its file, for messages. 0: not known.
	Line int `json:"-"`
}

// When describes the time of a step, such as "after 48h" or "before 45d, every 1w, 3 times".
func (s Step) When() string {
	return s.when("after "+s.Interval, s.EveryInterval, s.TimesCount+" times")
}

// whenFor is When for a row, with the values that its data hold instead of their SQL.
func (s Step) whenFor(h expr.Held) string {
	interval, every, times := "after "+s.Interval, "", ""
	if h.After != nil {
		interval = h.After.String()
	}
	if h.Every != nil {
		timed := s.After.At != "" || s.Before.At != ""
		if m, repeats := again(*h.Every, timed); repeats {
			every = expr.Length{Months: m.months, Days: m.days, Time: m.span}.Span()
		}
	}
	if h.Times != nil {
		times = spoken.Count(*h.Times, "time", "times")
	}
	return s.when(interval, every, times)
}

// when describes the time of a step, with these texts for what the data of a row hold.
func (s Step) when(interval, every, times string) string {
	text := interval
	switch {
	case s.Before != (Delay{}):
		text = "before " + s.Before.String()
	case s.Interval == "":
		text = "after " + s.After.String()
	}
	if s.Every != (Delay{}) {
		every = s.Every.String()
	}
	if s.TimesCount == "" {
		times = ""
	}
	if s.Times > 0 {
		times = spoken.Count(s.Times, "time", "times")
	}
	if every == "" {
		return text
	}
	if text += ", every " + every; times != "" {
		text += ", " + times
	}
	return text
}

// Repeats reports whether a step may fire more than once for a row.
func (s Step) Repeats() bool { return s.Every != Delay{} || s.EveryInterval != "" }

// business reports whether a step needs a calendar.
func (s Step) business() bool { return s.After.Business() || s.Before.Business() || s.Every.Business() }

// acts reports whether a step does anything.
func (s Step) acts() bool { return s.Event != "" || s.SQL != "" || s.Job != "" || s.Receiver != "" }

// does returns the event of a step, or else its job, "sql", or "notify" with its receiver.
func (s Step) does() string {
	if s.Receiver != "" && s.SQL == "" {
		return cmp.Or(s.Event, s.Job, "notify "+s.Receiver)
	}
	return cmp.Or(s.Event, s.Job, "sql")
}

// Does describes what a step does, such as "event order.late, job order.check".
func (s Step) Does() string {
	var acts []string
	for _, act := range [][2]string{{"event", s.Event}, {"sql", s.SQL}, {"job", s.Job}, {"notify", s.Receiver}} {
		if act[1] != "" {
			acts = append(acts, act[0]+" "+strings.Join(strings.Fields(act[1]), " "))
		}
	}
	return strings.Join(acts, ", ")
}

// repetition matches the name of a repetition of a step.
var repetition = regexp.MustCompile(`^(.*)#([0-9]+)$`)

// maxNumber is the longest end of the name of a repetition, in bytes.
const maxNumber = len("#999999999")

// Repetition returns the name of the nth time that a step fires, in the ID of its event and in the payload of a row.
// The first time has the name of the step, the second one such as "reminder#2".
func Repetition(step string, n int) string {
	if n == 1 {
		return step
	}
	return fmt.Sprintf("%s#%d", step, n)
}

// ParseRepetition returns the step and the number of a name that Repetition returns.
func ParseRepetition(name string) (step string, n int) {
	if m := repetition.FindStringSubmatch(name); m != nil {
		n, _ = strconv.Atoi(m[2]) // 0 for a number that Repetition never writes
		return m[1], n
	}
	return name, 1
}
