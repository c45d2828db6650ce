package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// The bounds of names in bytes.
const (
	maxName  = 200
	maxEvent = 1000
)

// complete fills in the defaults of a rule, and returns a Problem for each mistake that needs neither
// the calendars nor a database.
func (r *Rule) complete() (errs []error) {
	wrong := func(field, format string, args ...any) { errs = append(errs, r.Problem(field, format, args...)) }
	for _, f := range []struct{ field, value, such string }{
		{"name", r.Name, "order.unshipped"},
		{"table", r.Table, "shop.orders"},
		{"key", r.Key.String(), "id"},
		{"since", r.Since.String(), "placed_at"},
		{"done", r.Done.String(), "shipped_at, or false if only a delete or where ends the wait"},
	} {
		if f.value == "" {
			wrong(f.field, "must be set, such as %s", f.such)
		}
	}
	if problem := checkName(r.Name); problem != "" {
		wrong("name", "%s", problem)
	}
	if reserved.IsJob(r.Name) {
		wrong("name", "the job of schedules has this name")
	}
	if r.Table != "" {
		names, err := ParseName(r.Table)
		switch {
		case err != nil:
			wrong("table", "%s", err)
		case len(names) != 2:
			wrong("table", "%q: want the schema and the table, such as shop.orders", r.Table)
		case r.Entity == "":
			r.Entity = names[1]
		}
	}
	r.checkKey(wrong)
	for i, also := range r.Also {
		if names, err := ParseName(also.Table); err != nil || len(names) != 2 {
			wrong(Entry("also", i, len(r.Also)), "table: %q: want the schema and the table, such as shop.payment", also.Table)
		}
	}
	if problem := checkName(r.Entity); problem != "" {
		wrong("entity", "%s", problem)
	}
	if _, err := crontab.Zone("", r.Timezone); err != nil {
		ofRow := ". For a name of the row write timezone: {name: " + r.Timezone + "}"
		if strings.Contains(r.Timezone, "/") { // a place, and no column
			ofRow = ""
		}
		wrong("timezone", "%s%s", err, ofRow)
	}
	if len(r.Steps) == 0 {
		wrong("steps", "must have at least one step, such as {after: 48h, event: order.unshipped}")
	}
	follows := r.follows()
	for _, field := range slices.Sorted(maps.Keys(follows)) { // so that mistakes of one line have an order
		act := follows[field]
		if problem := checkEvent(act.Event); problem != "" {
			wrong(field, "event: %s", problem)
		}
		if problem := checkName(act.Job); problem != "" {
			wrong(field, "job: %s", problem)
		}
		for of, problem := range act.check(r.fields()) {
			wrong(field, "%s: %s", of, problem)
		}
	}
	if r.AtOnce && r.Met != (Act{}) {
		wrong("met", "a check tells that a row is done in time, and cancel: at-once cancels the check of a row that is "+
			"done: leave out cancel")
	}
	return append(errs, r.checkActions()...)
}

// checkKey checks the columns of the key, and those of Also.
func (r *Rule) checkKey(wrong func(field, format string, args ...any)) {
	if len(r.Key) > MaxKeyColumns {
		wrong("key", "has %d columns, and may have %d", len(r.Key), MaxKeyColumns)
	}
	for i, column := range r.Key {
		if column != "" && slices.ContainsFunc(r.Key[:i], func(c string) bool { return quoted(c) == quoted(column) }) {
			wrong("key", "column %s is there twice", column)
		}
	}
	for i, also := range r.Also {
		if len(also.Key) > 0 && len(r.Key) > 0 && len(also.Key) != len(r.Key) {
			wrong(Entry("also", i, len(r.Also)), "key: has %s, and the key of the rule %d: name the column of each, in the "+
				"order of the rule", spoken.Count(int64(len(also.Key)), "column", "columns"), len(r.Key))
		}
	}
}

// checkActions checks what each step does, and its name.
func (r *Rule) checkActions() (errs []error) {
	names := map[string]int{}
	for i, s := range r.Steps {
		at := fmt.Sprintf("steps[%d]", i+1)
		wrong := func(field, format string, args ...any) {
			errs = append(errs, r.Problem(path(at, field), format, args...))
		}
		if !s.acts() {
			errs = append(errs, r.Problem(at, "must have at least one of event, sql, job and notify"))
		}
		for field, problem := range s.check(r.fields()) {
			wrong(field, "%s", problem)
		}
		most := maxName
		if s.Repeats() {
			most -= maxNumber
		}
		if problem := checkLength(s.Name, most); problem != "" {
			wrong("name", "%s", problem)
		}
		if repetition.MatchString(s.Name) {
			wrong("name", "%q ends as the name of a repetition does, such as reminder#2", s.Name)
		}
		if field, problem := s.checkTimes(); problem != "" {
			wrong(field, "%s", problem)
		}
		if problem := unknownValue(s.SQL, r.Key); problem != "" {
			wrong("sql", "%s", problem)
		}
		if problem := checkStatement(s.SQL); problem != "" {
			wrong("sql", "%s", problem)
		}
		if problem := checkName(s.Job); problem != "" {
			wrong("job", "%s", problem)
		}
		if problem := checkEvent(s.Event); problem != "" {
			wrong("event", "%s", problem)
		}
		if r.follows()[s.Name] != (Act{}) {
			wrong("name", "%q is the name of what follows with %[1]s: give the step another name", s.Name)
		}
		if first, again := names[s.Name]; again && s.Name != "" {
			wrong("name", "%q is the name of step %d, too: give each step a name of its own", s.Name, first)
		} else {
			names[s.Name] = i + 1
		}
	}
	return errs
}

// checkEvent returns what is wrong with the type of an event. Empty: nothing.
func checkEvent(event string) string {
	if len(event) > maxEvent || strings.ContainsFunc(event, unicode.IsControl) {
		return fmt.Sprintf("must be at most %d bytes of text without control characters", maxEvent)
	}
	return ""
}

// checkName returns what is wrong with the name of a job or an entity. Empty: nothing.
func checkName(name string) string { return checkLength(name, maxName) }

func checkLength(name string, most int) string {
	switch {
	case len(name) > most:
		return "must be at most " + strconv.Itoa(most) + " bytes, is " + strconv.Itoa(len(name))
	case strings.ContainsRune(name, 0):
		return "must not contain a NUL byte"
	}
	return ""
}

// checkSteps checks the calendars of steps, and their order.
func (r *reader) checkSteps(rule Rule, calendars map[string]Calendar) {
	latest := map[string]int{} // the last step of each kind of delay
	for i, s := range rule.Steps {
		if s.After == unread {
			continue
		}
		wrong := func(field, format string, args ...any) {
			r.errs = append(r.errs, rule.Problem(path(fmt.Sprintf("steps[%d]", i+1), field), format, args...))
		}
		field, delay := s.delay()
		if s.Every.Business() {
			field, delay = "every", s.Every
		}
		_, found := calendars[s.Calendar]
		none := s.Calendar+s.CalendarName == ""
		switch {
		case s.Interval != "" && !none && !s.Every.Business():
			wrong("calendar", "an interval of the data takes no calendar: its days count by the clocks of timezone")
			continue
		case s.business() && none:
			wrong(field, "a delay of %s needs a calendar: write calendar: and one of the file's calendars", delay)
		case none:
		case !s.business() && delay.At == "":
			wrong("calendar", "a delay of plain time, %s, takes no calendar", delay)
		case s.CalendarName != "" && len(calendars) == 0:
			wrong("calendar", "the file has no calendars that the data of a row could name")
		case s.CalendarName != "":
		case !found:
			names := slices.Sorted(maps.Keys(calendars))
			wrong("calendar", "there is no calendar %q in the file%s", s.Calendar,
				cmp.Or(spoken.Meant(s.Calendar, names), others(names)+". For a name of the row write calendar: {name: "+
					s.Calendar+"}"))
		}
		if s.Interval != "" {
			continue
		}
		kind := s.kind()
		if before, again := latest[kind]; again && s.amount() <= rule.Steps[before-1].amount() {
			field, delay := s.delay()
			_, other := rule.Steps[before-1].delay()
			wrong(field, "%s must be %s than the %s of step %d: list the earliest step first", delay,
				map[string]string{"after": "longer", "before": "shorter"}[field], other, before)
		}
		latest[kind] = i + 1
	}
}

// others says which names there are instead of one that is not known.
func others(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + spoken.List(names)
}

// delay returns the field of the delay of a step, and its value.
func (s Step) delay() (field string, d Delay) {
	if s.Before != (Delay{}) {
		return "before", s.Before
	}
	return "after", s.After
}

// kind returns what the steps have in common whose delays compare.
func (s Step) kind() string {
	_, d := s.delay()
	unit, _ := d.kind()
	return unit + " " + s.Calendar + s.CalendarName
}

// amount returns the delay of a step, in the unit of its kind. It is negative for a step before since.
func (s Step) amount() int64 {
	field, d := s.delay()
	_, amount := d.kind()
	if field == "before" {
		return -amount
	}
	return amount
}

// minEvery is the shortest delay between the times that a step fires.
const minEvery = time.Minute

// checkTimes returns what is wrong with the times of a step, and with which of its fields.
func (s Step) checkTimes() (field, problem string) {
	_, first := s.delay()
	switch {
	case s.Before.At != "" && s.Before == Delay{At: s.Before.At}:
		return "before", "must be longer than 0s"
	case !s.Repeats() && (s.Times != 0 || s.TimesCount != ""):
		return "times", "needs every, such as every: 2d"
	case !s.Repeats():
	case s.Every.At != "":
		return "every", fmt.Sprintf("takes no time of day: write it once, such as after: 3d at %s", s.Every.At)
	case s.Every.Duration != 0 && s.Every.Duration < minEvery:
		return "every", fmt.Sprintf("must be at least %s", duration.Format(minEvery))
	case first.At != "" && (s.Every.Duration != 0 || s.Every.BusinessTime != 0):
		return "every", "must be days, weeks, months or business days, such as 2d, because the step has a time of day"
	}
	return "", ""
}
