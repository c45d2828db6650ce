package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
)

const (
	outputTable = "table"
	outputJSON  = "json"
)

// withOutput gives a command that prints data its --output.
func (a *App) withOutput(c *cobra.Command) *cobra.Command {
	a.output = outputTable
	c.Flags().VarP(choice(&a.output, outputTable, outputJSON), "output", "o", "`FORMAT` on stdout: table or json")
	return c
}

// print prints v as JSON, or calls asTable where people read.
func (a *App) print(v any, asTable func() error) error {
	if a.output != outputJSON {
		return asTable()
	}
	if a.answer != nil {
		*a.answer = v
		return nil
	}
	if a.printed != nil {
		a.printed(v)
	}
	enc := json.NewEncoder(plain.Writer(a.Out))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printList prints a list: an array as JSON, else a table with a row for each element.
func printList[T any](a *App, list []T, header table.Row, row func(T) table.Row) error {
	if list == nil {
		list = []T{} // null as JSON otherwise
	}
	return a.print(list, func() error { return printTable(a, list, header, row) })
}

func printTable[T any](a *App, list []T, header table.Row, row func(T) table.Row) error {
	rows := make([]table.Row, len(list))
	for i, v := range list {
		rows[i] = row(v)
	}
	return a.table(header, rows...)
}

// lines prints text as lines, without anything that a terminal acts on.
func (a *App) lines(text ...string) error {
	_, err := a.Out.Write([]byte(plain.Text(strings.Join(text, "\n")) + "\n"))
	return err
}

// sentence prints a text, on a terminal in lines as wide as that.
func (a *App) sentence(text string) error {
	text = strings.Map(plain.Printable, text)
	if width := a.width(); width > 0 {
		text = wrap(text, width)
	}
	return a.lines(text)
}

// cell is a value as a table shows it: in one line, and never empty, so that columns can be counted.
func cell(v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return v.UTC().Format(time.RFC3339)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return cell(*v)
	case duration.Text:
		return spoken.Duration(time.Duration(v))
	case string:
		return cmp.Or(strings.Map(plain.Printable, v), "-")
	}
	return v
}

// orMore is a count that went no further than most, which is a whole number of thousands.
func orMore(n, most int64) any {
	if n < most {
		return n
	}
	return fmt.Sprintf("%d,000 or more", most/1000)
}
