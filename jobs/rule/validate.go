package rule

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

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
		{"key", r.Key, "id"},
		{"since", r.Since, "placed_at"},
		{"done", r.Done, "shipped_at"},
	} {
		if f.value == "" {
			wrong(f.field, "must be set, such as %s", f.such)
		}
	}
	if problem := checkName(r.Name); problem != "" {
		wrong("name", "%s", problem)
	}
	if r.Name == "schedule" {
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
	if problem := checkName(r.Entity); problem != "" {
		wrong("entity", "%s", problem)
	}
	if _, err := crontab.Zone("", r.Timezone); err != nil {
		wrong("timezone", "%s", err)
	}
	if len(r.Steps) == 0 {
		wrong("steps", "must have at least one step, such as {after: 48h, event: order.unshipped}")
	}
	return append(errs, r.checkActions()...)
}

// checkActions checks what each step does, and its name.
func (r *Rule) checkActions() (errs []error) {
	names := map[string]int{}
	for i, s := range r.Steps {
		at := fmt.Sprintf("steps[%d]", i+1)
		wrong := func(field, format string, args ...any) {
			errs = append(errs, r.Problem(path(at, field), format, args...))
		}
		if s.Event == "" && s.SQL == "" && s.Job == "" {
			errs = append(errs, r.Problem(at, "must have at least one of event, sql and job"))
		}
		if problem := checkName(s.Name); problem != "" {
			wrong("name", "%s", problem)
		}
		if name := unknownValue(s.SQL); name != "" {
			wrong("sql", "there is no value %s: want $key, $since, $step or $payload", name)
		}
		if problem := checkName(s.Job); problem != "" {
			wrong("job", "%s", problem)
		}
		if len(s.Event) > maxEvent || strings.ContainsFunc(s.Event, unicode.IsControl) {
			wrong("event", "must be at most %d bytes of text without control characters", maxEvent)
		}
		if first, again := names[s.Name]; again {
			wrong("name", "%q is the name of step %d, too: give each step a name of its own", s.Name, first)
		} else {
			names[s.Name] = i + 1
		}
	}
	return errs
}

// checkName returns what is wrong with the name of a job or an entity. Empty: nothing.
func checkName(name string) string {
	switch {
	case len(name) > maxName:
		return "must be at most " + strconv.Itoa(maxName) + " bytes, is " + strconv.Itoa(len(name))
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
		at := fmt.Sprintf("steps[%d]", i+1)
		_, found := calendars[s.Calendar]
		switch {
		case s.After.Business() && s.Calendar == "":
			r.errs = append(r.errs,
				rule.Problem(path(at, "after"), "a delay of %s needs a calendar: write calendar: "+
					"and one of the file's calendars", s.After))
		case !s.After.Business() && s.Calendar != "":
			r.errs = append(r.errs, rule.Problem(path(at, "calendar"), "a delay of plain time, %s, takes no calendar", s.After))
		case s.Calendar != "" && !found:
			r.errs = append(r.errs, rule.Problem(path(at, "calendar"), "there is no calendar %q in the file", s.Calendar))
		}
		kind := s.Calendar
		if s.After.BusinessDays > 0 {
			kind += " days"
		}
		if before, again := latest[kind]; again && !rule.Steps[before-1].After.less(s.After) {
			r.errs = append(r.errs,
				rule.Problem(path(at, "after"), "%s must be longer than the %s of step %d: "+
					"list the earliest step first", s.After, rule.Steps[before-1].After, before))
		}
		latest[kind] = i + 1
	}
}

// less compares two delays of the same kind.
func (d Delay) less(other Delay) bool {
	return d.Duration < other.Duration || d.BusinessDays < other.BusinessDays || d.BusinessTime < other.BusinessTime
}
