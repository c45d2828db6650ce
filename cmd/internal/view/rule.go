package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
)

// Rule is a rule that was applied, as JSON.
type Rule struct {
	Name  string `json:"name"`  // of the rule
	Table string `json:"table"` // with its schema
	// applying (an apply is at work, or has died), active or removing; of rules list also broken: doctor says why
	State     string     `json:"state"`
	Version   int        `json:"version"`    // raised by each apply that changes the rule
	AppliedAt *time.Time `json:"applied_at"` // UTC; null: an apply is at work, or has died
	AppliedBy string     `json:"applied_by"` // the database role
	PausedAt  *time.Time `json:"paused_at"`  // UTC; null: it is not paused
	Steps     []RuleStep `json:"steps"`
}

// RuleStep is a step of a rule, as JSON. At least one of Event, SQL, Job and Notify is set.
type RuleStep struct {
	Name     string `json:"name"`     // of the step
	When     string `json:"when"`     // such as "after 3 business days of berlin"
	After    string `json:"after"`    // empty: Before or Interval is set. With Interval, the least delay
	Before   string `json:"before"`   // empty: After or Interval is set
	Interval string `json:"interval"` // the SQL of a delay that the data hold; empty: none
	Every    string `json:"every"`    // empty: the step fires once, or EveryInterval is set
	Times    int    `json:"times"`    // 0: a step that repeats fires until the row is done, or as TimesCount says
	Calendar string `json:"calendar"` // empty: plain time, or CalendarName is set

	EveryInterval string `json:"every_interval"` // the SQL of Every, if the data hold it; empty: they do not
	TimesCount    string `json:"times_count"`    // the SQL of Times, if the data hold it; empty: they do not
	CalendarName  string `json:"calendar_name"`  // the SQL of Calendar, if the data hold it; empty: they do not

	Event  string `json:"event"`  // the type of the event; empty: none
	SQL    string `json:"sql"`    // the statement; empty: none
	Job    string `json:"job"`    // of which a check is enqueued; empty: none
	Notify string `json:"notify"` // the receiver of a message; empty: none
	Text   string `json:"text"`   // the template of the message; empty: the default
	To     string `json:"to"`     // the template of its recipient; empty: the receiver says who
	HTML   string `json:"html"`   // the template of a part of a mail beside the text; empty: a mail has the text alone
	Digest string `json:"digest"` // when it is sent together with others; empty: at once
}

// RuleDetail is a rule with what waits for it and what it did, as JSON.
type RuleDetail struct {
	Rule
	Key     string   `json:"key"`      // a column or several, as in the file
	Entity  string   `json:"entity"`   // the name of a row in events, and in prescient why NAME KEY
	Since   string   `json:"since"`    // a column or an expression, as in the file
	Done    string   `json:"done"`     // a column or a condition, as in the file
	Where   string   `json:"where"`    // empty: all rows
	Pause   string   `json:"pause"`    // empty: the clock of a row never stands still
	Payload []string `json:"payload"`  // the columns, and the expressions with their names
	Zone    string   `json:"timezone"` // empty: UTC, or as ZoneName says
	Also    []string `json:"also"`     // other tables whose writes let a row be looked at, each with its column
	Recheck string   `json:"recheck"`  // how often to look for a moved clock in other tables; empty: 5m, never with Also
	Overdue string   `json:"overdue"`  // empty: last, and an apply refuses rows whose steps have passed
	Role    string   `json:"role"`     // empty: the login of the run
	AtOnce  bool     `json:"at_once"`  // cancel: at-once

	ZoneName string `json:"timezone_name"` // the SQL of Zone, if the data hold it; empty: they do not

	Recovered RuleAct           `json:"recovered"` // follows when a row is over for which a step has fired
	Met       RuleAct           `json:"met"`       // follows when a row is done in time
	Fired     []FiredStep       `json:"fired"`     // what the rule has fired, by step, and as recovered and met
	Summary   rulestore.Summary `json:"summary"`
}

// RuleAct is the JSON of a rule.Act. A field is empty if the act lacks it.
type RuleAct struct {
	Event  string `json:"event"`  // the type of the event
	Job    string `json:"job"`    // of which a check is enqueued
	Notify string `json:"notify"` // the receiver of a message
}

func newRuleAct(a rule.Act) RuleAct { return RuleAct{a.Event, a.Job, a.Receiver} }

// Acts returns the steps, and behind them Recovered and Met in the form of steps.
func (r RuleDetail) Acts() []RuleStep {
	acts := slices.Clip(r.Steps)
	add := func(name, when string, a RuleAct) {
		if a != (RuleAct{}) {
			acts = append(acts, RuleStep{Name: name, When: when, Event: a.Event, Job: a.Job, Notify: a.Notify})
		}
	}
	add(rule.RecoveredStep, rule.RecoveredWhen, r.Recovered)
	add(rule.MetStep, rule.MetWhen, r.Met)
	return acts
}

// FiredStep counts what a step has fired, as JSON. A step of an older version may be there, too.
type FiredStep = rulestore.FiredStep

// NewRule returns a rule as JSON.
func NewRule(s rulestore.Status) Rule {
	return Rule{
		Name: s.Rule.Name, Table: s.Relation, State: string(s.State), Version: s.Version,
		AppliedAt: TimeOrNil(s.AppliedAt), AppliedBy: s.AppliedBy, PausedAt: TimeOrNil(s.PausedAt),
		Steps: seq.Map(s.Rule.Steps, newRuleStep),
	}
}

func newRuleStep(s rule.Step) RuleStep {
	v := RuleStep{
		Name: s.Name, When: s.When(), After: s.After.String(), Interval: s.Interval, Times: s.Times, Calendar: s.Calendar,
		EveryInterval: s.EveryInterval, TimesCount: s.TimesCount, CalendarName: s.CalendarName,
		Event: s.Event, SQL: s.SQL, Job: s.Job, Notify: s.Receiver, Text: s.Text, To: s.To, HTML: s.HTML, Digest: s.Digest,
	}
	if s.Interval != "" && s.After == (rule.Delay{}) {
		v.After = ""
	}
	if s.Before != (rule.Delay{}) {
		v.After, v.Before = "", s.Before.String()
	}
	if s.Every != (rule.Delay{}) {
		v.Every = s.Every.String()
	}
	if calendar := cmp.Or(s.Calendar, ofData(s.CalendarName)); calendar != "" {
		v.When += " of " + calendar
	}
	return v
}

// ofData returns a name that the data of a row hold, as a file says it.
func ofData(sql string) string {
	if sql == "" {
		return ""
	}
	return "{name: " + sql + "}"
}

// NewRuleDetail returns a rule with its numbers as JSON.
func NewRuleDetail(s rulestore.Status, fired []rulestore.FiredStep, sum rulestore.Summary) RuleDetail {
	r := s.Rule
	v := RuleDetail{
		Rule: NewRule(s), Key: r.Key.String(), Entity: r.Entity, Since: r.Since.String(), Done: r.Done.String(),
		Where: r.Where.String(), Pause: r.Pause.String(),
		Payload: append([]string{}, r.Payload...), Zone: r.Timezone, ZoneName: r.TimezoneName, Role: r.Role,
		AtOnce: r.AtOnce, Recovered: newRuleAct(r.Recovered), Met: newRuleAct(r.Met),
		Fired: append([]FiredStep{}, fired...), Summary: sum,
	}
	v.Also = seq.Map(r.Also, func(also rule.Also) string { return also.Table + " " + also.Key.String() })
	for _, value := range r.Values {
		v.Payload = append(v.Payload, value.Name+": "+value.SQL)
	}
	if r.Recheck != (rule.Delay{}) {
		v.Recheck = r.Recheck.String()
	}
	if text, err := r.Overdue.MarshalText(); err == nil {
		v.Overdue = string(text)
	}
	return v
}

// Option is an option of a rule, as its file names it.
type Option struct {
	Name, Value string
}

// Options returns the options that the rule has, but for its steps.
func (r RuleDetail) Options() []Option {
	cancel := ""
	if r.AtOnce {
		cancel = "at-once"
	}
	return slices.DeleteFunc([]Option{
		{"table", r.Table},
		{"key", r.Key},
		{"entity", r.Entity},
		{"since", r.Since},
		{"done", r.Done},
		{"where", r.Where},
		{"pause", r.Pause},
		{"payload", strings.Join(r.Payload, ", ")},
		{"timezone", cmp.Or(r.Zone, ofData(r.ZoneName))},
		{"also", strings.Join(r.Also, ", ")},
		{"recheck", r.Recheck},
		{"overdue", r.Overdue},
		{"cancel", cancel},
		{"role", r.Role},
	}, func(o Option) bool { return o.Value == "" })
}

// Word returns the state of a rule in a word, or that it is paused.
func (r Rule) Word() string {
	if r.PausedAt != nil {
		return "paused"
	}
	return r.State
}

// Times lists the times of the steps of a rule.
func (r Rule) Times() string {
	return strings.Join(seq.Map(r.Steps, func(s RuleStep) string { return s.When }), "; ")
}

// Does describes what a step does.
func (s RuleStep) Does() string {
	return rule.Step{Event: s.Event, SQL: s.SQL, Job: s.Job, Notify: rule.Notify{Receiver: s.Notify}}.Does()
}
