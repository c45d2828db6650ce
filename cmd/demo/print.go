package demo

import (
	"fmt"
	"io"
	"time"
)

// The colours, as the terminal knows them.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// printer writes to a terminal or, plain, to a pipe. The first error is kept, and ends the writing.
type printer struct {
	out    io.Writer
	colour bool
	err    error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) chapter(title string) { p.printf("\n%s\n", p.paint(bold, title)) }

// word explains a word of the product where it first occurs.
func (p *printer) word(word, meaning string) {
	p.printf("  %s\n", p.paint(dim, fmt.Sprintf("%-9s %s", word, meaning)))
}

// day is an instant as the story tells it: the weekday, and the time in UTC.
func day(at time.Time) string { return at.UTC().Format("Mon 15:04") }
