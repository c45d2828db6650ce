// Package duration reads and writes durations as people write them, in flags, settings, files and JSON alike.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/internal/spoken"
)

const (
	day     = 24 * time.Hour
	maxDays = uint64(math.MaxInt64 / day)
)

var errSyntax = errors.New("want numbers with units, such as 90s, 15m, 12h, 90d or 1d12h, not negative, " +
	"below 292 years")

// Parse parses a duration as [time.ParseDuration] does, and also days in front: "90d", "1d12h".
// A day is 24 hours, whatever the clocks of a time zone do, and its number is whole. "0" needs no unit.
// A negative duration and one of more than 292 years are errors.
func Parse(text string) (time.Duration, error) {
	number, rest, found := strings.Cut(text, "d")
	if !found {
		number, rest = "0", text
	} else if rest == "" {
		rest = "0"
	}
	days, err := strconv.ParseUint(number, 10, 64)
	d, restErr := time.ParseDuration(rest)
	signed := rest != "" && strings.ContainsAny(rest[:1], "+-")
	total := time.Duration(min(days, maxDays))*day + d
	if err != nil || restErr != nil || signed || days > maxDays || total < 0 {
		return 0, fmt.Errorf("parse duration %q: %w", text, errSyntax)
	}
	return total, nil
}

// Format writes d as people write it: 1m, not 1m0s. It has no days.
func Format(d time.Duration) string { return spoken.Exact(d) }

// Text is a duration that is text in JSON and in YAML, and the value of a flag.
type Text time.Duration

// Var registers a flag that takes a duration, such as --keep 90d. The value is stored in target, which holds the
// default until the flag is given. A bad value fails the parsing of fs.
func Var(fs *pflag.FlagSet, target *time.Duration, name string, value time.Duration, usage string) {
	*target = value
	fs.Var((*Text)(target), name, usage)
	if value == 0 {
		fs.Lookup(name).DefValue = "0" // which help leaves out
	}
}

// String is [Format].
func (t Text) String() string { return Format(time.Duration(t)) }

// MarshalText is [Format].
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is [Parse].
func (t *Text) UnmarshalText(text []byte) error { return t.Set(string(text)) }

// Set is [Parse], for a flag.
func (t *Text) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*t = Text(d)
	}
	return err
}

// Type names the value that a flag takes.
func (t *Text) Type() string { return "DURATION" }
