package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The colours, as escape sequences of a terminal.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// printer writes to a terminal, or without colours to a pipe. It keeps the first error and then
// writes nothing more.
type printer struct {
	out    io.Writer
	colour bool
	width  int // of the terminal; 0: lines are not wrapped
	err    error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		lines := strings.Split(fmt.Sprintf(format, args...), "\n")
		for i := range lines {
			lines[i] = p.wrap(lines[i])
		}
		_, p.err = io.WriteString(p.out, strings.Join(lines, "\n"))
	}
}

// wrap breaks a line that is wider than the terminal between words. Continuation lines are indented
// by two more columns.
func (p *printer) wrap(line string) string {
	if p.width == 0 || text.StringWidthWithoutEscSequences(line) <= p.width {
		return line
	}
	words := strings.TrimLeft(line, " ")
	indent := strings.Repeat(" ", len(line)-len(words))
	var b strings.Builder
	b.WriteString(indent)
	at := len(indent)
	for i, word := range strings.Split(words, " ") {
		n := text.StringWidthWithoutEscSequences(word)
		switch {
		case i == 0:
		case at+1+n > p.width:
			b.WriteString("\n  " + indent)
			at = len(indent) + 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func (p *printer) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) chapter(title string) { p.printf("\n%s\n", p.paint(bold, title)) }

// word prints a word of the product and its meaning, where the story first uses it.
func (p *printer) word(word, meaning string) {
	p.printf("  %s\n", p.paint(dim, fmt.Sprintf("%-9s %s", word, meaning)))
}

// day returns the weekday and the time of an instant in UTC.
func day(at time.Time) string { return at.UTC().Format("Mon 15:04") }
