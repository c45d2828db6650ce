package config

import (
	"errors"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
)

// Span is from one duration to another, written as "1h..7d". The zero value is none, written as nothing.
type Span struct{ Min, Max time.Duration }

// String writes the durations as [duration.Format] does: "1h..168h".
func (s Span) String() string {
	if s == (Span{}) {
		return ""
	}
	return duration.Format(s.Min) + ".." + duration.Format(s.Max)
}

func parseSpan(text string) (s Span, err error) {
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	least, most, _ := strings.Cut(text, "..")
	var first, second error
	s.Min, first = duration.Parse(strings.TrimSpace(least))
	s.Max, second = duration.Parse(strings.TrimSpace(most))
	if err := errors.Join(first, second); err != nil {
		return Span{}, err
	}
	if s.Min == 0 || s.Max < s.Min {
		return Span{}, errors.New("want a first duration above 0, and a second one that is no shorter")
	}
	return s, nil
}
