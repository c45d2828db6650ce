package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
)

// Condition is a rule about the ledger that should hold.
type Condition struct {
	Name string
	Help string // what breaks the rule, with LIMIT for the limit
	unit string // "", "%" or "duration"
	// limit is the default limit.
	limit float64
	judge func(r *Report, limit float64) []Finding
}

// Conditions lists all conditions, in the order in which they are judged. What one finding tells, a
// later condition leaves out.
var Conditions = []Condition{
	{"unregistered", "more than LIMIT jobs that no run of the last 7 days has registered, " +
		"with rows in the next day that were asked for more than a width ago", "", 0, unregistered},
	{"missed", "more than LIMIT slots that no run has opened", "", 0, missed},
	{"stranded", "more than LIMIT slots that were left open, " +
		"or have rows which were committed after they were closed", "", 0, stranded},
	{"overdue", "rows that have been due for longer than LIMIT", "duration", time.Hour.Seconds(), overdue},
	{"gave-up", "more than LIMIT rows that were given up after their last error, in the last day", "", 0, gaveUp},
	{"failing", "a job of which more than LIMIT of the checks failed in the slot that was run last", "%", 50, failing},
	{"publishing", "recurring schedules of which more than LIMIT could not be published in " +
		"the slot that was run last", "%", 0, publishing},
	{"slow", "one of the newest four runs took more than LIMIT of the width", "%", 100, slow},
	{"sla", "a job of which more than LIMIT of the checks in slots of the last day began later than its SLA, " +
		"and some of the slot that was run last", "%", 1, sla},
	{
		"between-stores", "rows on their way to another store for longer than LIMIT", "duration",
		(10 * time.Minute).Seconds(), betweenStores,
	},
	{
		"ahead", "a ledger with slots, or a beginning, that lie beyond the clock by more than LIMIT", "duration",
		time.Minute.Seconds(), ahead,
	},
	{
		"consumers", "more than LIMIT consumers of the outbox at a position that the server has not come to", "", 0,
		consumers,
	},
	{
		"dead-letters", "more than LIMIT events that were given up, because their destination refused them", "", 0,
		deadLetters,
	},
}

// Limits holds the limits that differ from the defaults. The zero value has none.
type Limits struct {
	given map[string]float64 // below 0: the condition is left out
}

// Set takes a limit such as "gave-up=10", "overdue=2h", "slow=150%" or "failing=off".
func (l *Limits) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	i := slices.IndexFunc(Conditions, func(c Condition) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no condition %q; they are %s", name, strings.Join(Names(), ", "))
	}
	limit, err := Conditions[i].parse(value)
	if err != nil {
		return err
	}
	if l.given == nil {
		l.given = map[string]float64{}
	}
	l.given[name] = limit
	return nil
}

// Names returns the names of the conditions.
func Names() (names []string) {
	for _, c := range Conditions {
		names = append(names, c.Name)
	}
	return names
}

// Limit returns the default limit, in the form that Set takes.
func (c Condition) Limit() string {
	if c.unit == "duration" {
		return seconds(c.limit)
	}
	return strconv.FormatFloat(c.limit, 'f', -1, 64) + c.unit
}

func (c Condition) parse(text string) (float64, error) {
	if text == "off" {
		return -1, nil
	}
	var limit float64
	var err error
	if c.unit == "duration" {
		var d time.Duration
		d, err = duration.Parse(text)
		limit = d.Seconds()
	} else {
		limit, err = strconv.ParseFloat(strings.TrimSuffix(text, c.unit), 64)
	}
	if err != nil || !(limit >= 0 && limit < 1e12) {
		return 0, fmt.Errorf("%s=%s: must be off, or a limit such as %s", c.Name, text, c.Limit())
	}
	return limit, nil
}

func (l Limits) of(c Condition) (limit float64, on bool) {
	limit, given := l.given[c.Name]
	if !given {
		limit = c.limit
	}
	return limit, limit >= 0
}
