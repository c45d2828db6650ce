package action

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Forms are the forms of all actions. The page and the API offer each of them.
var Forms = []*Form{
	cancelForm,
	cancelManyForm,
	cancelSelectedForm,
	rescheduleForm,
	rescheduleSelectedForm,
	retryForm,
	retrySelectedForm,
	runCheckForm,
	ackForm,
	silenceForm,
	endSilenceForm,
	pauseJobForm,
	resumeJobForm,
	removeRuleForm,
	catchUpForm,
	triggerScheduleForm,
	backfillScheduleForm,
	resendEventsForm,
	discardEventsForm,
	forgetConsumerForm,
	pauseScheduleForm,
	resumeScheduleForm,
}

// Form describes an action for the page and for the API: how people and programs give its fields.
type Form struct {
	Name    string // of the action, in the log and in the table action
	Path    string // in the addresses of the page and of the API; default: the name
	Summary string // in the document of the API
	Title   string
	Verb    string // of the button
	Lead    string
	Fields  []Field // in the page
	// Empty is the action without a value.
	Empty Action
	// Decode returns the action that decode reads from a program's request.
	Decode func(decode func(v any) error) (Action, error)
	make   func(in *Input) Action
}

// Name returns the name of an action in the log and in the table action.
func Name(a Action) string {
	of := reflect.TypeOf(a)
	return Forms[slices.IndexFunc(Forms, func(f *Form) bool { return reflect.TypeOf(f.Empty) == of })].Name
}

// form completes the form of an action. enter makes the action of what a person has entered.
func form[A Action](f Form, enter func(in *Input) A) *Form {
	f.Path = cmp.Or(f.Path, strings.ReplaceAll(f.Name, " ", "-"))
	f.Empty = *new(A)
	f.Decode = func(decode func(v any) error) (Action, error) {
		var a A
		err := decode(&a)
		return a, err
	}
	f.make = func(in *Input) Action { return enter(in) }
	return &f
}

// Field is an input of a form. The previous page sets a fixed field, so the form does not ask for
// it.
type Field struct {
	Name, Label, Hint string
	Options           []Option
	Names             Named // the names that the page offers; empty: none
	Required, Fixed   bool
	Many              bool // it has several values, which a list gives
	Default           string
}

// Named is a kind of thing that has a name.
type Named string

// The kinds whose names a form offers.
const (
	Jobs      Named = "jobs"
	Entities  Named = "entities"
	Schedules Named = "schedules"
	Rules     Named = "rules"
	Consumers Named = "consumers"
)

// Option is a value to choose, with its text.
type Option struct{ Value, Text string }

const (
	pastHint  = "UTC, such as 2026-03-01 13:15; or 24h: so long ago. Empty: no bound."
	aheadHint = "UTC, such as 2026-03-01 13:15; or 2h: so long from now."
)

// The fields of several forms.
var (
	jobField  = Field{Name: "job", Label: "Job", Required: true, Fixed: true, Names: Jobs}
	nameField = Field{Name: "name", Label: "Entity", Required: true, Fixed: true, Names: Entities}
	keyField  = Field{Name: "key", Label: "Key", Required: true, Fixed: true}
	itemField = Field{Name: "item", Label: "Item", Fixed: true}
	idField   = Field{Name: "id", Label: "Schedule", Required: true, Fixed: true, Names: Schedules}
	anyJob    = Field{Name: "job", Label: "Job", Fixed: true}
	atField   = Field{Name: "at", Label: "New time", Hint: aheadHint, Required: true}
)

// Input holds the values of a form. It turns times that are durations into instants, so that the
// confirmed action is the previewed one.
type Input struct {
	Values url.Values
	Now    time.Time
	Wrong  map[string]string // by field
}

// Text returns exactly what was entered, because a key may begin or end with a space.
func (in *Input) Text(name string) string { return in.Values.Get(name) }

// key returns the key of a check.
func (in *Input) key() jobs.Key {
	return jobs.Key{
		JobExec: in.Text("job"), EntityName: in.Text("name"), EntityKey: in.Text("key"), ItemKey: in.Text("item"),
	}
}

func (in *Input) past(name string) time.Time  { return in.time(name, -1) }
func (in *Input) ahead(name string) time.Time { return in.time(name, 1) }

// time reads an instant, or a duration before or after now.
func (in *Input) time(name string, sign time.Duration) time.Time {
	text := strings.TrimSpace(in.Text(name))
	if text == "" {
		return time.Time{}
	}
	at, _, err := spoken.ParseInstant(text)
	if d, none := duration.Parse(text); err != nil && none == nil && d >= 0 {
		at, err = in.Now.Add(sign*d).UTC().Truncate(time.Second), nil
	}
	if err != nil {
		in.Wrong[name] = "is no time: write 2026-03-01 13:15, or a duration such as 24h"
		return at
	}
	in.Values.Set(name, at.UTC().Format(time.RFC3339Nano))
	return at
}

// payload takes a JSON object, or one field of it as NAME=VALUE.
func (in *Input) payload(name string) json.RawMessage {
	text := strings.TrimSpace(in.Text(name))
	if text == "" {
		return nil
	}
	object, err := admin.PayloadFields(text)
	if err != nil {
		in.Wrong[name] = "must be FIELD=VALUE, or a JSON object"
	}
	return json.RawMessage(object)
}

// duration reads a duration. An empty field is 0, which every action takes as the default.
func (in *Input) duration(name string) duration.Text {
	text := strings.TrimSpace(in.Text(name))
	if text == "" {
		return 0
	}
	d, err := duration.Parse(text)
	if err != nil || d == 0 {
		in.Wrong[name] = "must be a duration such as 30m, 2h or 7d"
	}
	return duration.Text(d)
}

// number reads a number from 1 to most. An empty field is 0, which every action takes as the default
// that the hint of the field names.
func (in *Input) number(name string, most int64) int64 {
	text := strings.ReplaceAll(strings.TrimSpace(in.Text(name)), ",", "")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		in.Wrong[name] = fmt.Sprintf("must be a number from 1 to %s, or empty", spoken.Number(most))
	}
	return n
}

// Action returns the action of the form, or nil if a field is wrong.
func (f *Form) Action(in *Input) Action {
	for _, field := range f.Fields {
		known := func(o Option) bool { return o.Value == in.Text(field.Name) }
		switch {
		case field.Required && in.Text(field.Name) == "":
			in.Wrong[field.Name] = "is missing"
		case in.Text(field.Name) != "" && len(field.Options) > 0 && !slices.ContainsFunc(field.Options, known):
			in.Wrong[field.Name] = "is none of those"
		}
	}
	if action := f.make(in); len(in.Wrong) == 0 {
		return action
	}
	return nil
}

// Asks reports whether the form has a field to fill in.
func (f *Form) Asks() bool {
	return slices.ContainsFunc(f.Fields, func(f Field) bool { return !f.Fixed })
}
