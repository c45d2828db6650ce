package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/advise"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Advice says what the checks of a job have cost, and which interval would halve them.
func Advice(a *advise.Advice) string {
	name := a.Job
	if a.Class != "" {
		name += " of " + a.Class
	}
	switch {
	case len(a.Points) == 0:
		return fmt.Sprintf("%s: fewer than %d of its rows were found finished, which is too little to go by.", name,
			advise.MinRows)
	case a.Checks == 0:
		return name + ": its rows were ended before their first check."
	case a.Halved == nil:
		return name + ": nothing would halve the checks, since a row has one at the least, " +
			"unless its owner cancels it before."
	}
	text := name + ": " + cost(&a.Past) + " the row is finished."
	if a.Fixed != nil && len(a.Fixed.Next) > 0 {
		every := spoken.Duration(time.Duration(a.Fixed.Next[0]))
		text += fmt.Sprintf(" With a next check every %s: %s.", every, cost(a.Fixed))
	}
	text += " With a first check after " + spoken.Duration(time.Duration(a.Halved.First))
	next := seq.Map(a.Halved.Next, func(d duration.Text) string { return spoken.Duration(time.Duration(d)) })
	if len(next) > 0 {
		text += ", and the next ones each " + strings.Join(next, ", ") + " later"
	}
	return text + ": " + cost(a.Halved) + "."
}

// cost says how many checks a row has, and when the last one comes.
func cost(p *advise.Plan) string {
	return fmt.Sprintf("%.1f checks a row, the last one %s after", p.Checks, spoken.Duration(time.Duration(p.Delay)))
}
