package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
)

// actionForm is the form of an action: its fields, and how they make the action.
type actionForm struct {
	Path, Title string
	Verb        string // of the button
	Lead        string
	Fields      []field
	make        func(in *input) board.Action
}

// field is an input of a form. The previous page sets a fixed field, so the form does not ask for
// it.
type field struct {
	Name, Label, Hint string
	Options           []option
	Required, Fixed   bool
	Default           string
}

type option struct{ Value, Text string }

const (
	pastHint  = "UTC, such as 2026-03-01 13:15; or 24h: so long ago. Empty: no bound."
	aheadHint = "UTC, such as 2026-03-01 13:15; or 2h: so long from now."
)

// The fields of several forms.
var (
	jobField     = field{Name: "job", Label: "Job", Required: true, Fixed: true}
	nameField    = field{Name: "name", Label: "Entity", Required: true, Fixed: true}
	keyField     = field{Name: "key", Label: "Key", Required: true, Fixed: true}
	itemField    = field{Name: "item", Label: "Item", Fixed: true}
	idField      = field{Name: "id", Label: "Schedule", Required: true, Fixed: true}
	subjectField = field{Name: "subject", Label: "Subject", Hint: "Such as the id of a schedule. Empty: every subject."}
	eventField   = field{Name: "id", Label: "Event", Hint: "Its id. Empty: every event."}
	anyJob       = field{Name: "job", Label: "Job", Fixed: true}
)

// actionForms are all forms of actions.
var actionForms = []actionForm{
	{
		Path: "cancel", Title: "Cancel", Verb: "Cancel", Lead: "Waiting checks end as cancelled, and stay in history.",
		Fields: []field{nameField, keyField, anyJob, itemField},
		make: func(in *input) board.Action {
			return board.Cancel{
				JobExec: in.text("job"), EntityName: in.text("name"), EntityKey: in.text("key"),
				ItemKey: in.text("item"),
			}
		},
	},
	{
		Path: "cancel-many", Title: "Cancel many checks", Verb: "Cancel",
		Lead: "The waiting checks that every field selects end as cancelled, in batches, and stay in history. " +
			"Those of schedules stay.",
		Fields: []field{
			{Name: "job", Label: "Job", Hint: "Empty: every job."},
			{Name: "name", Label: "Entity", Hint: "Empty: every kind."},
			{Name: "key", Label: "Key", Hint: "* stands for any text, such as 42-*. Empty: every key."},
			{Name: "group", Label: "Group", Hint: "Empty: every group."},
			{
				Name: "payload", Label: "Payload",
				Hint: `A field, such as merchant=42, or several, such as {"merchant": 42, "country": "DE"}. Empty: every payload.`,
			},
			{Name: "until", Label: "Enqueued before", Hint: pastHint},
			{Name: "limit", Label: "At the most", Hint: "Those of the first slots. Empty: all."},
		},
		make: func(in *input) board.Action {
			return board.CancelMany{
				JobExec: in.text("job"), EntityName: in.text("name"), EntityKey: in.text("key"),
				GroupKey: in.text("group"),
				Payload:  in.payload("payload"), Until: in.past("until"), Limit: in.number("limit", 1<<40),
			}
		},
	},
	{
		Path: "reschedule", Title: "Move a check", Verb: "Move",
		Lead: "The check waits for the first slot at or after the new time.",
		Fields: []field{
			jobField, nameField, keyField, itemField,
			{Name: "at", Label: "New time", Hint: aheadHint, Required: true},
		},
		make: func(in *input) board.Action {
			return board.Reschedule{
				JobExec: in.text("job"), EntityName: in.text("name"), EntityKey: in.text("key"),
				ItemKey: in.text("item"), At: in.ahead("at"),
			}
		},
	},
	{
		Path: "retry", Title: "Put failed checks back", Verb: "Put back",
		Lead: "Checks that were given up come back from history with a clean error count. " +
			"A key that waits already stays unchanged.",
		Fields: []field{
			{Name: "job", Label: "Job", Hint: "Empty: every job."},
			{Name: "name", Label: "Entity", Hint: "Empty: every kind."},
			{Name: "key", Label: "Key", Hint: "Empty: every key."},
			{Name: "since", Label: "Given up since", Hint: pastHint},
			{
				Name: "limit", Label: "At the most",
				Hint: "The oldest first, up to 100,000. Empty: 1,000.", Default: "1000",
			},
			{Name: "at", Label: "Into the slot of", Hint: aheadHint + " Empty: the next slot."},
		},
		make: func(in *input) board.Action {
			return board.Retry{
				JobExec: in.text("job"), EntityName: in.text("name"), EntityKey: in.text("key"),
				Since: in.past("since"), Limit: int(in.number("limit", 100_000)), At: in.ahead("at"),
			}
		},
	},
	{
		Path: "pause-job", Title: "Pause a job", Verb: "Pause",
		Lead:   "Its rows wait until it is resumed; running checks finish.",
		Fields: []field{jobField},
		make:   func(in *input) board.Action { return board.PauseJob{JobExec: in.text("job")} },
	},
	{
		Path: "resume-job", Title: "Resume a job", Verb: "Resume",
		Lead:   "Its rows are run in their slots again; catch-up takes the rows whose slots have passed.",
		Fields: []field{jobField},
		make:   func(in *input) board.Action { return board.ResumeJob{JobExec: in.text("job")} },
	},
	{
		Path: "remove-rule", Title: "Remove a rule", Verb: "Remove",
		Lead: "Its triggers are dropped, its waiting rows end as cancelled, and what has fired is forgotten. " +
			"The table stays as it is.",
		Fields: []field{{Name: "rule", Label: "Rule", Required: true, Fixed: true}},
		make:   func(in *input) board.Action { return board.RemoveRule{Name: in.text("rule")} },
	},
	{
		Path: "catch-up", Title: "Catch up", Verb: "Catch up",
		Lead: "Repairs slots that were missed, left open, or have rows that came late: " +
			"the oldest first, for the jobs that are registered with the binary that serves this page.",
		Fields: []field{
			{Name: "mode", Label: "What to do with the rows", Options: []option{
				{string(slots.ModeRun), "run: check each now, or apply the misfire policy of its job"},
				{string(slots.ModeDefer), "defer: move them to coming slots, unchecked"},
				{string(slots.ModeExpire), "expire: end rows past the deadline of their job"},
			}},
			{Name: "job", Label: "Job", Hint: "Empty: every job."},
			{Name: "since", Label: "From slot", Hint: pastHint},
			{Name: "until", Label: "Up to slot", Hint: pastHint},
			{Name: "limit", Label: "Maximum number of rows", Hint: "Empty: all."},
			{Name: "spread", Label: "Slots over which defer spreads", Hint: "Empty: the next one."},
		},
		make: func(in *input) board.Action {
			return board.CatchUp{
				Mode: slots.Mode(cmp.Or(in.text("mode"), string(slots.ModeRun))), Job: in.text("job"),
				Since: in.past("since"), Until: in.past("until"),
				Limit: in.number("limit", 1<<40), Spread: int(in.number("spread", 100_000)),
			}
		},
	},
	{
		Path: "trigger", Title: "Publish now", Verb: "Publish",
		Lead:   "One event of the schedule is published at once. Its instants stay as they are.",
		Fields: []field{idField},
		make:   func(in *input) board.Action { return board.TriggerSchedule{ID: in.text("id")} },
	},
	{
		Path: "backfill", Title: "Backfill a schedule", Verb: "Backfill",
		Lead: "The instants of a time that has passed are published, each with the id that it has or would have had.",
		Fields: []field{
			idField,
			{Name: "from", Label: "From", Hint: pastHint, Required: true},
			{Name: "to", Label: "Up to, but not including", Hint: pastHint, Required: true},
		},
		make: func(in *input) board.Action {
			return board.BackfillSchedule{ID: in.text("id"), From: in.past("from"), To: in.past("to")}
		},
	},
	{
		Path: "resend-events", Title: "Send dead letters again", Verb: "Send",
		Lead:   "Events that were given up are sent again, in their order.",
		Fields: []field{subjectField, eventField},
		make: func(in *input) board.Action {
			return board.ResendEvents{Subject: in.text("subject"), ID: in.text("id")}
		},
	},
	{
		Path: "discard-events", Title: "Delete dead letters", Verb: "Delete",
		Lead:   "Events that were given up are deleted. Nothing brings them back.",
		Fields: []field{subjectField, eventField},
		make: func(in *input) board.Action {
			return board.DiscardEvents{Subject: in.text("subject"), ID: in.text("id")}
		},
	},
	{
		Path: "pause-schedule", Title: "Pause a schedule", Verb: "Pause",
		Lead:   "It publishes nothing until it is resumed.",
		Fields: []field{idField},
		make:   func(in *input) board.Action { return board.PauseSchedule{ID: in.text("id")} },
	},
	{
		Path: "resume-schedule", Title: "Resume a schedule", Verb: "Resume",
		Lead:   "It goes on from now; what it would have published meanwhile is left out.",
		Fields: []field{idField},
		make:   func(in *input) board.Action { return board.ResumeSchedule{ID: in.text("id")} },
	},
}

// input holds the values of a form. It turns times that are durations into instants, so that the
// confirmed action is the previewed one.
type input struct {
	values url.Values
	now    time.Time
	wrong  map[string]string // by field
}

// text returns exactly what was entered, because a key may begin or end with a space.
func (in *input) text(name string) string { return in.values.Get(name) }

func (in *input) past(name string) time.Time  { return in.time(name, -1) }
func (in *input) ahead(name string) time.Time { return in.time(name, 1) }

// time reads an instant, or a duration before or after now.
func (in *input) time(name string, sign time.Duration) time.Time {
	text := strings.TrimSpace(in.text(name))
	if text == "" {
		return time.Time{}
	}
	at, ok := parseInstant(text)
	if d, err := duration.Parse(text); !ok && err == nil && d >= 0 {
		at, ok = in.now.Add(sign*d).UTC().Truncate(time.Second), true
	}
	if !ok {
		in.wrong[name] = "is no time: write 2026-03-01 13:15, or a duration such as 24h"
		return at
	}
	in.values.Set(name, formatInstant(at))
	return at
}

func parseInstant(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// payload takes a JSON object, or one field of it as NAME=VALUE.
func (in *input) payload(name string) json.RawMessage {
	text := strings.TrimSpace(in.text(name))
	if text == "" {
		return nil
	}
	object, err := admin.PayloadFields(text)
	if err != nil {
		in.wrong[name] = "must be FIELD=VALUE, or a JSON object"
	}
	return json.RawMessage(object)
}

// number reads a number from 1 to most. An empty field is 0, which every action takes as the default
// that the hint of the field names.
func (in *input) number(name string, most int64) int64 {
	text := strings.ReplaceAll(strings.TrimSpace(in.text(name)), ",", "")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		in.wrong[name] = fmt.Sprintf("must be a number from 1 to %s, or empty", num(most))
	}
	return n
}

// action returns the action of the form, or nil if a field is wrong.
func (d actionForm) action(in *input) board.Action {
	for _, f := range d.Fields {
		known := func(o option) bool { return o.Value == in.text(f.Name) }
		switch {
		case f.Required && in.text(f.Name) == "":
			in.wrong[f.Name] = "is missing"
		case in.text(f.Name) != "" && len(f.Options) > 0 && !slices.ContainsFunc(f.Options, known):
			in.wrong[f.Name] = "is none of those"
		}
	}
	if action := d.make(in); len(in.wrong) == 0 {
		return action
	}
	return nil
}

// asks reports whether the form has a field to fill in.
func (d actionForm) asks() bool {
	return slices.ContainsFunc(d.Fields, func(f field) bool { return !f.Fixed })
}
