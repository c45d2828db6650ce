package view

import (
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/learn"
)

// Advice says what would halve the checks of a job.
func Advice(a *learn.Advice) string {
	name := a.Job
	if a.Class != "" {
		name += " of " + a.Class
	}
	switch {
	case len(a.Points) == 0:
		return fmt.Sprintf("%s: fewer than %d of its rows were found finished, which is too little to go by.", name, learn.MinRows)
	case a.Checks == 0:
		return name + ": its rows were ended before their first check."
	case a.Halved == nil:
		return name + ": nothing would halve the checks, since a row has one at the least, unless its owner cancels it before."
	}
	next := []string{}
	for _, d := range a.Halved.Next {
		next = append(next, spoken.Duration(d))
	}
	text := fmt.Sprintf("%s: %.1f checks a row instead of %.1f, %s after it is finished instead of %s, with a first check after %s",
		name, a.Halved.Checks, a.Past.Checks, spoken.Duration(a.Halved.Delay), spoken.Duration(a.Past.Delay), spoken.Duration(a.Halved.First))
	if len(next) > 0 {
		text += " and the next ones each " + strings.Join(next, ", ") + " later"
	}
	text += "."
	if a.Fixed != nil && len(a.Fixed.Next) > 0 {
		text += fmt.Sprintf(" A fixed interval of %s has as many, %s after it is finished", spoken.Duration(a.Fixed.Next[0]), spoken.Duration(a.Fixed.Delay))
		if a.Fixed.Delay <= a.Halved.Delay*11/10 {
			text += ": it does about as well"
		}
		text += "."
	}
	return text
}
