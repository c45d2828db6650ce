package cmd

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
)

const (
	outputTable = "table"
	outputJSON  = "json"
)

// withOutput gives a command that prints data its --output.
func (a *App) withOutput(c *cobra.Command) *cobra.Command {
	a.output = outputTable
	c.Flags().VarP(choice(&a.output, outputTable, outputJSON), "output", "o", "`FORMAT` of what is printed on stdout: table or json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// print prints v as JSON, or calls asTable where people read.
func (a *App) print(v any, asTable func() error) error {
	if a.output != outputJSON {
		return asTable()
	}
	enc := json.NewEncoder(a.Out)
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

// table prints a borderless table. Rows without a header are pairs of a label and a value.
func (a *App) table(header table.Row, rows ...table.Row) error {
	t := table.NewWriter()
	t.SetStyle(table.Style{
		Name: "plain",
		Box:  table.BoxStyle{PaddingRight: "  "},
	})
	t.SuppressTrailingSpaces()
	if header != nil {
		t.AppendHeader(header)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
		t.AppendRow(row)
	}
	return a.lines(t.Render())
}

// lines prints text as lines.
func (a *App) lines(text ...string) error {
	_, err := a.Out.Write([]byte(strings.Join(text, "\n") + "\n"))
	return err
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
		return rounded(v)
	case string:
		return cmp.Or(strings.Map(printable, v), "-")
	}
	return v
}

// printable keeps from a terminal what is not text: data may hold anything.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// rounded is a duration with no more digits than people read.
func rounded(d duration.Text) string {
	digits := time.Millisecond
	if time.Duration(d) < time.Second {
		digits = 10 * time.Microsecond
	}
	return duration.Format(time.Duration(d).Round(digits))
}
