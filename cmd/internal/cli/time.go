package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
)

// Span is the pair of flags --since and --until.
type Span struct{ since, until Instant }

// Flags adds the flags, each with its usage.
func (s *Span) Flags(fs *pflag.FlagSet, since, until string) {
	SinceVar(fs, &s.since, "since", since)
	SinceVar(fs, &s.until, "until", until)
}

// At returns the bounds at now, each zero if its flag was not given. A span that ends before it has
// begun is an error of usage.
func (s *Span) At(now time.Time) (from, to time.Time, err error) {
	from, to = s.since.From(now), s.until.From(now)
	if s.since.Given() && s.until.Given() && !to.After(from) {
		err = exit.Usagef("--until %s is at or before --since %s", &s.until, &s.since)
	}
	return from, to, err
}

// NotSlot returns the error of an instant that is off the grid.
func NotSlot(g grid.Grid, at time.Time) error {
	return exit.Usagef("%s is not a slot: the width is %s; the slots around it are %s and %s", at.Format(time.RFC3339Nano),
		duration.Text(g.Width()), spoken.Instant(g.Floor(at)), spoken.Instant(g.Next(at)))
}
