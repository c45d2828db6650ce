package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/config/duration"
)

// instant is a flag or an argument that names a moment: RFC 3339, a date (midnight UTC) or, where ago allows it, a
// duration before now. The zero value is "not given", and so the first instant of the year 1 is none.
type instant struct {
	ago  bool // durations are allowed
	none bool // the word none is, which stands for the zero time

	at     time.Time
	before time.Duration
	text   string
}

func (i *instant) String() string { return i.text }

// Type is the placeholder in help.
func (i *instant) Type() string { return "TIME" }

// Set parses an instant.
func (i *instant) Set(text string) error {
	if i.none && text == "none" {
		i.at, i.text = time.Time{}, text
		return nil
	}
	const zoneless, minutes = "2006-01-02T15:04:05", "2006-01-02T15:04"
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly, zoneless, minutes} {
		at, err := time.Parse(layout, text)
		parse, _ := errors.AsType[*time.ParseError](err)
		switch {
		case parse != nil && strings.HasSuffix(parse.Message, "out of range"):
			return errors.New("there is no such time" + parse.Message)
		case err != nil || at.IsZero():
		case layout == zoneless || layout == minutes:
			return errors.New("it has no time zone: add Z for UTC, or an offset such as +01:00")
		default:
			i.at, i.before, i.text = at.UTC(), 0, text
			return nil
		}
	}
	if !i.ago {
		return errors.New("want an instant such as 2006-01-02T15:04:05Z or a date such as 2006-01-02")
	}
	before, err := duration.Parse(text)
	if err != nil {
		return errors.New("want an instant such as 2006-01-02T15:04:05Z, a date such as 2006-01-02, or how long ago such as 90m or 7d")
	}
	i.at, i.before, i.text = time.Time{}, before, text
	return nil
}

// inOrder returns an error of usage if --since and --until are given, and at now the span ends before it has begun.
func inOrder(now time.Time, since, until instant) error {
	if since.given() && until.given() && !until.from(now).After(since.from(now)) {
		return usagef("--until %s is at or before --since %s", until.text, since.text)
	}
	return nil
}

// given tells whether it was set.
func (i *instant) given() bool { return i.text != "" }

// from is the instant it names at now, in UTC; zero when it was not given.
func (i *instant) from(now time.Time) time.Time {
	if i.given() && i.at.IsZero() {
		return now.Add(-i.before).UTC()
	}
	return i.at
}

// sinceVar adds a flag that names an instant or how long ago it was.
func sinceVar(fs *pflag.FlagSet, i *instant, name, usage string) {
	i.ago = true
	fs.Var(i, name, usage+": an instant, a date, or how long ago (7d)")
}

// when is the pair of flags --at and --in.
type when struct {
	at instant
	in time.Duration
	c  *cobra.Command
}

func (w *when) flags(c *cobra.Command) {
	w.c = c
	c.Flags().Var(&w.at, "at", "an instant or a date, rounded up to a slot")
	duration.Var(c.Flags(), &w.in, "in", 0, "how long from now, rounded up to a slot (48h, 7d)")
	c.MarkFlagsMutuallyExclusive("at", "in")
}

// from is the instant the flags name at now; zero when none was given.
func (w *when) from(now time.Time) time.Time {
	if w.c.Flags().Changed("in") {
		return now.Add(w.in)
	}
	return w.at.from(now)
}

// choice is a flag that takes one of some words.
func choice[T ~string](target *T, words ...T) pflag.Value { return &choiceFlag[T]{target, words} }

type choiceFlag[T ~string] struct {
	target *T
	words  []T
}

func (f *choiceFlag[T]) String() string { return string(*f.target) }

func (f *choiceFlag[T]) Type() string { return "WORD" }

// Words is what a shell completes.
func (f *choiceFlag[T]) Words() (words []string) {
	for _, word := range f.words {
		words = append(words, string(word))
	}
	return words
}

func (f *choiceFlag[T]) Set(text string) error {
	if !slices.Contains(f.words, T(text)) {
		return fmt.Errorf("want %s", orList(f.words))
	}
	*f.target = T(text)
	return nil
}

// count is a flag that takes a number from 1 up.
type count int

func (n *count) String() string { return strconv.Itoa(int(*n)) }

// Type is the placeholder in help.
func (n *count) Type() string { return "N" }

// Set parses a number.
func (n *count) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 31)
	if err != nil || v == 0 {
		return errors.New("want a whole number from 1 up")
	}
	*n = count(v)
	return nil
}

func countVar(fs *pflag.FlagSet, n *count, name string, value count, usage string) {
	*n = value
	fs.Var(n, name, usage)
}

// exactly accepts the arguments of these names, and says what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("missing argument: want %s", strings.Join(names, " "))
		case len(args) > len(names):
			want := "nothing more"
			if len(names) > 0 {
				want = strings.Join(names, " ") + " and " + want
			}
			return fmt.Errorf("unexpected argument %q: want %s", args[len(names)], want)
		}
		return nil
	}
}

// atLeast accepts an argument of this name, and any number after it.
func atLeast(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("missing argument: want %s, or several", name)
		}
		return nil
	}
}

// group is a command that only has others below it.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.SuggestionsMinimumDistance = 2
	c.DisableFlagsInUseLine = true
	c.AddCommand(subs...)
	wantOneOf(c, subs)
	return c
}

// wantOneOf lets a command say what is missing or wrong where none of those below it is named.
func wantOneOf(c *cobra.Command, subs []*cobra.Command) {
	c.RunE = func(*cobra.Command, []string) error { return nil } // Args lets nothing come here
	c.Args = func(c *cobra.Command, args []string) error {
		var names []string
		for _, sub := range subs {
			names = append(names, sub.Name())
		}
		if len(args) == 0 {
			return fmt.Errorf("missing command: want %s", orList(names))
		}
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q%s", args[0], didYouMean(near))
		}
		return fmt.Errorf("unknown command %q: want %s", args[0], orList(names))
	}
}

// suggestFlags names the flags that an unknown one may have been meant for, or the command where that one is unknown, too.
func suggestFlags(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 { // before the flag
		return c.ValidateArgs(args)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := nearest(unknown.GetSpecifiedName(), names)
	for i := range near {
		near[i] = "--" + near[i]
	}
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w%s", err, didYouMean(near))
}

// nearest returns the names that a mistyped one may have been meant for.
func nearest(typed string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra finds what is near among commands alone
	slices.Sort(names)
	whole, spaced := strings.NewReplacer(" ", "\x00"), strings.NewReplacer("\x00", " ") // the name of a command ends at a space
	for _, name := range slices.Compact(names) {
		c.AddCommand(&cobra.Command{Use: whole.Replace(name), Run: func(*cobra.Command, []string) {}})
	}
	near := c.SuggestionsFor(whole.Replace(typed))
	for i := range near {
		near[i] = spaced.Replace(near[i])
	}
	return near
}

func didYouMean(near []string) string { return ": did you mean " + orList(near) + "?" }

func orList[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}
