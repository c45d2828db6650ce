package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	day     = 24 * time.Hour
	maxDays = uint64(math.MaxInt64 / day)
)

var errDuration = errors.New("want numbers with units, such as 90s, 15m, 12h, 90d or 1d12h, not negative, below 292 years")

// ParseDuration parses a duration as [time.ParseDuration] does, and also days in front: "90d", "1d12h".
// A day is 24 hours, whatever the clocks of a time zone do, and its number is whole. "0" needs no unit.
// A negative duration and one of more than 292 years are errors.
func ParseDuration(text string) (time.Duration, error) {
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
		return 0, fmt.Errorf("parse duration %q: %w", text, errDuration)
	}
	return total, nil
}

// FormatDuration writes d as people write it: 1m, not 1m0s. It has no days.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// DurationVar registers a flag that takes a duration as [ParseDuration] reads it, such as --keep 90d.
// The value is stored in target, which holds the default until the flag is given. A bad value fails the parsing of fs.
func DurationVar(fs *pflag.FlagSet, target *time.Duration, name string, value time.Duration, usage string) {
	*target = value
	fs.Var((*durationFlag)(target), name, usage)
}

// durationFlag is the pflag.Value behind DurationVar.
type durationFlag time.Duration

func (f *durationFlag) String() string { return FormatDuration(time.Duration(*f)) }

func (f *durationFlag) Type() string { return "duration" }

func (f *durationFlag) Set(text string) error {
	d, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*f = durationFlag(d)
	return nil
}
