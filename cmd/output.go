package cmd

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/output"
)

// printer prints the data of a command. It is the Printer of the commands that package cmd has itself.
type printer struct {
	// Out receives data. Default: the stdout of the process.
	Out io.Writer

	to output.Printer
}

// out returns the Printer for what Out is now.
func (p *printer) out() *output.Printer {
	p.to.Out = p.Out
	return &p.to
}

func (p *printer) withOutput(c *cobra.Command) *cobra.Command { return p.out().WithOutput(c) }

func (p *printer) print(v any, asTable func() error) error { return p.out().Print(v, asTable) }

func (p *printer) lines(text ...string) error { return p.out().Lines(text...) }

func (p *printer) sentence(text string) error { return p.out().Sentence(text) }

func (p *printer) width() int { return p.out().Width() }

func (p *printer) table(header table.Row, rows ...table.Row) error {
	return p.out().Table(header, rows...)
}

func (p *printer) isJSON() bool { return p.to.IsJSON() }

func printList[T any](a *App, list []T, header table.Row, row func(T) table.Row) error {
	return output.List(a.out(), list, header, row)
}

func printTable[T any](a *App, list []T, header table.Row, row func(T) table.Row) error {
	return output.Rows(a.out(), list, header, row)
}
