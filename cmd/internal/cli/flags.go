// Package cli has the flags, arguments and groups that commands are made of. It knows no command.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Instant is a flag or an argument for a moment: RFC 3339, a date (midnight UTC) or, if Ago is set, a duration before
// now. The zero value means that the flag was not given, so the first instant of the year 1 is refused.
type Instant struct {
	Ago bool // durations are allowed

	At     time.Time // the given moment; zero for a duration before now
	before time.Duration
	text   string
}

// String is the text as it was given.
func (i *Instant) String() string { return i.text }

// Type is the placeholder in help.
func (i *Instant) Type() string { return "TIME" }

// Set parses an instant.
func (i *Instant) Set(text string) error {
	at, zoned, err := spoken.ParseInstant(text)
	switch {
	case err == nil && !zoned:
		return errors.New("it has no time zone: add Z for UTC, or an offset such as +01:00")
	case err == nil && !at.IsZero():
		i.At, i.before, i.text = at, 0, text
		return nil
	case err == nil:
		err = spoken.ErrNoInstant
	}
	if !i.Ago || !errors.Is(err, spoken.ErrNoInstant) {
		return err
	}
	before, err := duration.Parse(text)
	if err != nil {
		return errors.New("want an instant such as 2006-01-02T15:04:05Z, a date such as 2006-01-02, " +
			"or how long ago such as 90m or 7d")
	}
	i.At, i.before, i.text = time.Time{}, before, text
	return nil
}

// Given tells whether it was set.
func (i *Instant) Given() bool { return i.text != "" }

// From is the instant it names at now, in UTC; zero when it was not given.
func (i *Instant) From(now time.Time) time.Time {
	if i.Given() && i.At.IsZero() {
		return now.Add(-i.before).UTC()
	}
	return i.At
}

// SinceVar adds a flag that names an instant or how long ago it was. usage may end with "; default: " and the default.
func SinceVar(fs *pflag.FlagSet, i *Instant, name, usage string) {
	i.Ago = true
	what, otherwise, has := strings.Cut(usage, "; default: ")
	if what += ": an instant, a date, or how long ago (7d)"; has {
		what += "; default: " + otherwise
	}
	fs.Var(i, name, what)
}

// When is the pair of flags --at and --in.
type When struct {
	at Instant
	in time.Duration
	c  *cobra.Command
}

// Flags adds --at and --in, which exclude each other.
func (w *When) Flags(c *cobra.Command) {
	w.c = c
	c.Flags().Var(&w.at, "at", "an instant or a date, rounded up to a slot")
	duration.Var(c.Flags(), &w.in, "in", 0, "how long from now, rounded up to a slot (48h, 7d)")
	c.MarkFlagsMutuallyExclusive("at", "in")
}

// From is the instant the flags name at now; zero when none was given.
func (w *When) From(now time.Time) time.Time {
	if w.c.Flags().Changed("in") {
		return now.Add(w.in)
	}
	return w.at.From(now)
}

// Choice is a flag that takes one of some words.
func Choice[T ~string](target *T, words ...T) pflag.Value { return &choiceFlag[T]{target, words} }

type choiceFlag[T ~string] struct {
	target *T
	words  []T
}

func (f *choiceFlag[T]) String() string { return string(*f.target) }

func (f *choiceFlag[T]) Type() string { return "WORD" }

// Words returns the words that a shell completes.
func (f *choiceFlag[T]) Words() []string {
	return seq.Map(f.words, func(word T) string { return string(word) })
}

func (f *choiceFlag[T]) Set(text string) error {
	if !slices.Contains(f.words, T(text)) {
		return fmt.Errorf("want %s", spoken.OrList(f.words))
	}
	*f.target = T(text)
	return nil
}

// Count is a flag that takes a number from 1 up.
type Count int

// String is the number.
func (n *Count) String() string { return strconv.Itoa(int(*n)) }

// Type is the placeholder in help.
func (n *Count) Type() string { return "N" }

// Set parses a number.
func (n *Count) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 31)
	if err != nil || v == 0 {
		return errors.New("want a whole number from 1 up")
	}
	*n = Count(v)
	return nil
}

// CountVar adds a flag that takes a number from 1 up.
func CountVar(fs *pflag.FlagSet, n *Count, name string, value Count, usage string) {
	*n = value
	fs.Var(n, name, usage)
}

// ErrEmpty refuses an empty value of a flag that chooses what a command works on.
var ErrEmpty = errors.New("it is empty: give a value, or leave the flag out")

// word is the value of a flag that chooses what a command works on.
type word string

// String returns the text.
func (w *word) String() string { return string(*w) }

// Set refuses an empty text.
func (w *word) Set(text string) error {
	if text == "" {
		return ErrEmpty
	}
	*w = word(text)
	return nil
}

// Type names the type in help.
func (w *word) Type() string { return "string" }

// WordVar adds a flag that chooses what a command works on. Its value may not be empty: that of a
// shell variable without a value would select everything, or something else.
func WordVar(fs *pflag.FlagSet, target *string, name, usage string) {
	fs.Var((*word)(target), name, usage)
}
