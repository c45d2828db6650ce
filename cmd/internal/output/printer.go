// Package output prints the data of commands: as JSON for programs, or as tables and lines for
// people. It knows no command.
package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"os"
	"reflect"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/seq"
)

// The formats of --output.
const (
	Table = "table"
	JSON  = "json"
)

// Printer prints the data of a command.
type Printer struct {
	// Out gets the data.
	Out io.Writer
	// Format is the value of --output.
	Format string
	// Printed sees what Print prints as JSON: a test makes json.schema.json from it. Optional.
	Printed func(v any)

	answer *any // gets what Print would print as JSON; see Into
}

// WithOutput adds --output to a command that prints data.
func (p *Printer) WithOutput(c *cobra.Command) *cobra.Command {
	p.Format = Table
	c.Flags().VarP(cli.Choice(&p.Format, Table, JSON), "output", "o", "`FORMAT` on stdout: table or json")
	return c
}

// Print prints v as JSON, or calls asTable if --output is table. A list becomes an object, so that fields can be added
// beside it later: {"items": [...]}.
func (p *Printer) Print(v any, asTable func() error) error {
	if p.Format != JSON {
		return asTable()
	}
	if p.answer != nil {
		*p.answer = v
		return nil
	}
	if p.Printed != nil {
		p.Printed(v)
	}
	enc := json.NewEncoder(plain.Writer(p.Out))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if isList(v) {
		v = items{v}
	}
	return enc.Encode(v)
}

// items is a list as JSON.
type items struct {
	Items any `json:"items"`
}

// isList reports whether a value is an array as JSON.
func isList(v any) bool {
	is := reflect.TypeOf(v)
	return is != nil && is.Kind() == reflect.Slice && is.Elem().Kind() != reflect.Uint8
}

// Pairs prints v as JSON, or rows of a label and a value.
func (p *Printer) Pairs(v any, rows ...table.Row) error {
	return p.Print(v, func() error { return p.Table(nil, rows...) })
}

// Say prints v as JSON, or lines of text.
func (p *Printer) Say(v any, text ...string) error {
	return p.Print(v, func() error { return p.Lines(text...) })
}

// List prints a list: as the items of a JSON object, or as Rows does.
func List[T any](p *Printer, list []T, header table.Row, row func(T) table.Row) error {
	if list == nil {
		list = []T{} // null as JSON otherwise
	}
	return p.Print(list, func() error { return Rows(p, list, header, row) })
}

// Stream prints the elements of a sequence as List does, each as it comes, so that a list of large elements takes
// the memory of one. After an error the JSON has no end.
func Stream[T any](p *Printer, all iter.Seq2[T, error]) error {
	if p.answer != nil || p.Printed != nil {
		list, err := seq.Collect(all)
		if err != nil {
			return err
		}
		return p.Print(append([]T{}, list...), nil)
	}
	out := bufio.NewWriter(p.Out)
	enc := json.NewEncoder(plain.Writer(&element{out: out}))
	enc.SetEscapeHTML(false)
	enc.SetIndent("    ", "  ")
	const begin = "{\n  \"items\": ["
	separator := begin
	for v, err := range all {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if _, err := out.WriteString(separator + "\n    "); err != nil {
			return err
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		separator = ","
	}
	if separator == begin {
		_, _ = out.WriteString(begin + "]\n}\n")
	} else {
		_, _ = out.WriteString("\n  ]\n}\n")
	}
	return out.Flush()
}

// element writes the values of an encoder without the line feed that follows each.
type element struct{ out io.Writer }

func (e *element) Write(p []byte) (int, error) {
	_, err := e.out.Write(bytes.TrimSuffix(p, []byte("\n")))
	return len(p), err
}

// Rows prints a list as a table with a row for each element.
func Rows[T any](p *Printer, list []T, header table.Row, row func(T) table.Row) error {
	return p.Table(header, seq.Map(list, row)...)
}

// OneMore returns the limit to read a list with, so that Limited can tell whether the list goes on. 0 is
// no limit.
func OneMore(limit cli.Count) int {
	if limit == 0 || limit == math.MaxInt32 { // which cli.Count takes at most
		return int(limit)
	}
	return int(limit) + 1
}

// Limited returns the elements of a list up to a limit. If there are more, it logs that, and how to get
// them: place returns what --after takes to go on behind an element.
func Limited[T any](ctx context.Context, log *slog.Logger, list []T, limit cli.Count, place func(T) string) []T {
	if limit == 0 || len(list) <= int(limit) {
		return list
	}
	More(ctx, log, int(limit), place(list[limit-1]))
	return list[:limit]
}

// More logs that a list has more elements than those that are shown, and how to get them. With place,
// --after goes on behind the last one.
func More(ctx context.Context, log *slog.Logger, shown int, place string) {
	log.WarnContext(ctx, fmt.Sprintf( //nolint:sloglint // for a person
		"%d shown; there are more: go on with --after %s, or give a larger --limit", shown, place))
}

// shown is the number of elements of a long list that Few prints.
const shown = 20

// Few prints the first elements of a list as a table: people do not read all of a long list. The
// list may be the beginning of one of n elements.
func Few[T any](p *Printer, n int, list []T, header table.Row, row func(T) table.Row) error {
	err := Rows(p, list[:min(len(list), shown)], header, row)
	if n -= shown; n > 0 {
		err = errors.Join(err, p.Lines(fmt.Sprintf("and %d more", n)))
	}
	return err
}

// Lines prints text as lines, without the characters that a terminal acts on.
func (p *Printer) Lines(text ...string) error {
	_, err := p.Out.Write([]byte(plain.Text(strings.Join(text, "\n")) + "\n"))
	return err
}

// Sentence prints a text. On a terminal, it wraps the lines at the width of the terminal.
func (p *Printer) Sentence(text string) error {
	text = strings.Map(plain.Printable, text)
	if width := p.Width(); width > 0 {
		text = Wrap(text, width)
	}
	return p.Lines(text)
}

// Width returns the number of columns of the terminal that shows stdout. It returns 0 for a pipe or
// a file: their readers get every column, and the whole text.
func (p *Printer) Width() int {
	file, ok := p.Out.(*os.File)
	if !ok || !IsTerminal(file) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 {
		return Narrow
	}
	return width
}

// Table prints a borderless table as wide as the terminal. Rows without a header are pairs of a
// label and a value.
func (p *Printer) Table(header table.Row, rows ...table.Row) error {
	return p.Lines(formatTable(p.Width(), header, rows...))
}

// Colour reports whether Out is a terminal and the user has not turned colours off (see
// no-color.org).
func (p *Printer) Colour() bool {
	file, ok := p.Out.(*os.File)
	return ok && IsTerminal(file) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsJSON reports whether the command prints JSON.
func (p *Printer) IsJSON() bool { return p.Format == JSON }

// IsTerminal reports whether a file is a terminal.
func IsTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }
