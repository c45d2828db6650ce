package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
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
	width  int // of the terminal; 0: lines are as long as they are
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

// wrap breaks a line that is wider than the terminal between words. It goes on indented as far as it began, and by two.
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

// word explains a word of the product where it first occurs.
func (p *printer) word(word, meaning string) {
	p.printf("  %s\n", p.paint(dim, fmt.Sprintf("%-9s %s", word, meaning)))
}

// day is an instant as the story tells it: the weekday, and the time in UTC.
func day(at time.Time) string { return at.UTC().Format("Mon 15:04") }
