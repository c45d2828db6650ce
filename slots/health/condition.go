package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Condition is a kind of problem that status --check looks for.
type Condition struct {
	Name string
	Help string // describes the problem, with THRESHOLD for its threshold
	unit string // "", "%" or "duration"
	// threshold is the default threshold.
	threshold float64
	judge     func(r *Report, threshold float64) []Finding
	about     subject
}

// subject says what the findings of a condition are about.
type subject int

const (
	aboutAll    subject = iota // nothing that has a name
	aboutJob                   // one job each
	aboutEither                // one job, or no job
	aboutOne                   // one destination, consumer or receiver each
)

// Named returns the finding of a name, without its text. The error says what is wrong with the name. See Finding.Name.
func Named(name string) (f Finding, err error) {
	condition, of, has := strings.Cut(name, "/")
	i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Name == condition })
	if i < 0 {
		return f, noCondition(condition)
	}
	f.Condition = condition
	switch about := conditions[i].about; {
	case about == aboutAll && has:
		return f, fmt.Errorf("a finding %s is not about one job: leave out /%s", condition, of)
	case about == aboutOne && of == "":
		return f, fmt.Errorf("a finding %s is about one of them: name it, as in %s/NAME", condition, condition)
	case about == aboutOne:
		f.About = of
	case about == aboutJob && of == "" || has && of == "":
		return f, fmt.Errorf("a finding %s is about one job: name it, as in %s/JOB", condition, condition)
	default:
		f.Job = of
	}
	return f, nil
}

// noCondition asks which condition was meant, or names them.
func noCondition(typed string) error {
	return fmt.Errorf("there is no condition %q%s", typed, cmp.Or(spoken.Meant(typed, Names()),
		"; they are "+strings.Join(Names(), ", ")))
}

// Conditions returns all conditions, in the order in which they are judged. If a finding tells a problem, later
// conditions leave it out.
func Conditions() []Condition { return slices.Clone(conditions) }

var conditions = []Condition{
	{"unserved", "more than THRESHOLD jobs that no run of the last 7 days had, with rows " +
		"that are due within a day and were requested more than a width ago", "", 0, unserved, aboutAll},
	{"missed", "more than THRESHOLD slots that no run has opened", "", 0, missed, aboutAll},
	{"stranded", "more than THRESHOLD slots that were left open, " +
		"or have rows that were committed after the slot was closed", "", 0, stranded, aboutAll},
	{"overdue", "rows that have been due for longer than THRESHOLD", "duration", time.Hour.Seconds(), overdue, aboutAll},
	{
		"gave-up", "a job of which more than THRESHOLD rows were given up after their last error, in the last day", "", 0,
		gaveUp, aboutJob,
	},
	{
		"failing", "a job that failed in more than THRESHOLD of its checks in the last slot that was run", "%", failingOver,
		failing, aboutJob,
	},
	{"publishing", "recurring schedules, if more than THRESHOLD of them could not be published in " +
		"the last slot that was run", "%", publishingOver, publishing, aboutJob},
	{"slow", "a run, of the newest four, that took more than THRESHOLD of the width", "%", 100, slow, aboutAll},
	{"sla", "a job that began more than THRESHOLD of its checks of the last day later than its SLA, " +
		"and some in the last slot that was run", "%", slaOver, sla, aboutJob},
	{
		"between-stores", "rows on their way to another store for longer than THRESHOLD", "duration",
		(10 * time.Minute).Seconds(), betweenStores, aboutAll,
	},
	{
		"ahead", "a ledger that begins, or has slots, more than THRESHOLD beyond the clock", "duration",
		time.Minute.Seconds(), ahead, aboutAll,
	},
	{
		"consumers", "more than THRESHOLD consumers of the outbox whose position is beyond its last event", "", 0,
		consumers, aboutAll,
	},
	{
		"destinations",
		"a destination that fails or refuses events, or whose events have waited THRESHOLD longer than a width",
		"duration", (30 * time.Minute).Seconds(), behind, aboutOne,
	},
	{
		"paused", "a job or a rule with due rows, or a schedule with past instants, that has been paused for longer than " +
			"THRESHOLD", "duration",
		(24 * time.Hour).Seconds(), forgotten, aboutEither,
	},
	{
		"receivers", "more than THRESHOLD receivers that a rule or a schedule notifies, and that no run has in its settings",
		"", 0, unknownReceivers, aboutOne,
	},
	{
		"unread", "a consumer that reads the outbox itself, and has not read an event for longer than THRESHOLD",
		"duration", (7 * 24 * time.Hour).Seconds(), unread, aboutOne,
	},
	{
		"dead-letters", "more than THRESHOLD events that were given up, because their destination refused them", "", 0,
		deadLetters, aboutAll,
	},
}

// Thresholds holds the thresholds that differ from the defaults. The zero value has none.
type Thresholds struct {
	given map[string]float64 // below 0: the condition is left out
}

// Set takes a threshold such as "gave-up=10", "overdue=2h", "slow=150%" or "failing=off".
func (l *Thresholds) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Name == name })
	if i < 0 {
		return noCondition(name)
	}
	threshold, err := conditions[i].parse(value)
	if err != nil {
		return err
	}
	if l.given == nil {
		l.given = map[string]float64{}
	}
	l.given[name] = threshold
	return nil
}

// Names returns the names of the conditions.
func Names() []string { return seq.Map(conditions, func(c Condition) string { return c.Name }) }

// Threshold returns the default threshold, in the form that Set takes.
func (c Condition) Threshold() string {
	if c.unit == "duration" {
		return seconds(c.threshold)
	}
	return strconv.FormatFloat(c.threshold, 'f', -1, 64) + c.unit
}

func (c Condition) parse(text string) (float64, error) {
	if text == "off" {
		return -1, nil
	}
	var threshold float64
	var err error
	if c.unit == "duration" {
		var d time.Duration
		d, err = duration.Parse(text)
		threshold = d.Seconds()
	} else {
		threshold, err = strconv.ParseFloat(strings.TrimSuffix(text, c.unit), 64)
	}
	if err != nil || !(threshold >= 0 && threshold < 1e12) {
		return 0, fmt.Errorf("%s=%s: must be off, or a threshold such as %s", c.Name, text, c.Threshold())
	}
	return threshold, nil
}

func (l Thresholds) of(c Condition) (threshold float64, on bool) {
	threshold, given := l.given[c.Name]
	if !given {
		threshold = c.threshold
	}
	return threshold, threshold >= 0
}
