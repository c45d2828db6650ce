package cmd

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/layout"
	"github.com/prescient-go/prescient/internal/plain"
)

const (
	outputTable = "table"
	outputJSON  = "json"
)

// withOutput gives a command that prints data its --output.
func (a *App) withOutput(c *cobra.Command) *cobra.Command {
	a.output = outputTable
	c.Flags().VarP(cli.Choice(&a.output, outputTable, outputJSON), "output", "o", "`FORMAT` on stdout: table or json")
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
		text = layout.Wrap(text, width)
	}
	return a.lines(text)
}

// width is how many columns the terminal has that shows stdout. It is 0 for a pipe or a file: whatever reads it gets
// every column, and all of a text.
func (a *App) width() int {
	file, ok := a.Out.(*os.File)
	if !ok || !isTerminal(file) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 {
		return layout.Narrow
	}
	return width
}

// table prints a borderless table as wide as the terminal. Rows without a header are pairs of a label and a value.
func (a *App) table(header table.Row, rows ...table.Row) error {
	return a.lines(layout.Table(a.width(), header, rows...))
}
