package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is a mistake in a file of rules. Find it with errors.As.
type Problem struct {
	// Line is the line of the file. 0: not known.
	Line int
	// Rule is the name of the rule. Empty: the mistake is outside of the rules, or the rule has no
	// name.
	Rule string
	// Field is the field, such as "steps[2].after" or "calendars.berlin". Steps count from 1. Empty: the
	// whole.
	Field string
	// Message says what is wrong, and what is right.
	Message string
}

// Error returns "line 12: rule order.unshipped: steps[2].after: must be ...".
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Rule != "" {
		fmt.Fprintf(&b, "rule %s: ", p.Rule)
	}
	if p.Field != "" {
		fmt.Fprintf(&b, "%s: ", p.Field)
	}
	return b.String() + p.Message
}

// Problems returns the mistakes that an error joins, and those that they join.
func Problems(err error) (list []*Problem) {
	for _, e := range Separate(err) {
		if p, ok := errors.AsType[*Problem](e); ok {
			list = append(list, p)
		}
	}
	return list
}

// Separate returns the errors that an error joins, and those that they join.
func Separate(err error) (list []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		list = append(list, Separate(e)...)
	}
	return list
}

// JoinByLine joins errors in the order of the lines that they name. An error that is no Problem comes first.
func JoinByLine(errs []error) error {
	line := func(err error) int {
		if p, ok := errors.AsType[*Problem](err); ok {
			return p.Line
		}
		return 0
	}
	inOrder := slices.SortedStableFunc(slices.Values(errs), func(a, b error) int { return line(a) - line(b) })
	return errors.Join(inOrder...)
}

// Hides reports whether another mistake of the rule may follow from this one: it is about the same field, or about the
// same step. What is wrong with a delay says nothing about what its step does.
func (p *Problem) Hides(other *Problem) bool {
	if p.Rule != other.Rule {
		return false
	}
	of, field := entryOf(p.Field)
	otherOf, otherField := entryOf(other.Field)
	switch {
	case of == "" || of == "steps" && strings.HasPrefix(otherOf, "steps["):
		return true
	case of != otherOf:
		return false
	}
	return !slices.Contains(delayFields, field) || slices.Contains(delayFields, otherField)
}

// delayFields are those of a step that say when it fires.
var delayFields = []string{"after", "before", "every", "times", "calendar"}

// entryOf returns what a field is a part of, such as "steps[2]" of "steps[2].after" or "since" of "since[1]", and the
// rest.
func entryOf(field string) (of, rest string) {
	of, rest, _ = strings.Cut(field, ".")
	if !strings.HasPrefix(of, "steps[") {
		of, _, _ = strings.Cut(of, "[")
	}
	return of, rest
}

// Problem returns a Problem with a field of the rule, at its line.
func (r Rule) Problem(field, format string, args ...any) *Problem {
	line, found := r.Lines[field]
	if whole, _, entry := strings.Cut(field, "["); !found && entry {
		line, found = r.Lines[whole]
	}
	if !found {
		line = r.Line
	}
	return &Problem{Line: line, Rule: r.Name, Field: field, Message: fmt.Sprintf(format, args...)}
}
