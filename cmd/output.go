package cmd

import (
	"encoding/json"
	"io"
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

// printer prints the data of a command.
type printer struct {
	// Out receives data. Default: the stdout of the process.
	Out io.Writer

	output  string      // what --output says
	answer  *any        // gets what would be printed as JSON, if it is one of several
	printed func(v any) // sees what is printed as JSON: a test holds docs/json.md against it
}

// withOutput adds --output to a command that prints data.
func (p *printer) withOutput(c *cobra.Command) *cobra.Command {
	p.output = outputTable
	c.Flags().VarP(cli.Choice(&p.output, outputTable, outputJSON), "output", "o", "`FORMAT` on stdout: table or json")
	return c
}

// print prints v as JSON, or calls asTable for output that people read.
func (p *printer) print(v any, asTable func() error) error {
	if p.output != outputJSON {
		return asTable()
	}
	if p.answer != nil {
		*p.answer = v
		return nil
	}
	if p.printed != nil {
		p.printed(v)
	}
	enc := json.NewEncoder(plain.Writer(p.Out))
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

// lines prints text as lines, without control characters.
func (p *printer) lines(text ...string) error {
	_, err := p.Out.Write([]byte(plain.Text(strings.Join(text, "\n")) + "\n"))
	return err
}

// sentence prints a text, wrapped at the width of a terminal.
func (p *printer) sentence(text string) error {
	text = strings.Map(plain.Printable, text)
	if width := p.width(); width > 0 {
		text = layout.Wrap(text, width)
	}
	return p.lines(text)
}

// width returns the columns of the terminal that shows stdout. It is 0 for a pipe or a file, which
// get every column and the whole text.
func (p *printer) width() int {
	file, ok := p.Out.(*os.File)
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
func (p *printer) table(header table.Row, rows ...table.Row) error {
	return p.lines(layout.Table(p.width(), header, rows...))
}

// colour reports whether Out is a terminal and the user has not turned colours off (see
// no-color.org).
func (p *printer) colour() bool {
	file, ok := p.Out.(*os.File)
	return ok && isTerminal(file) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
