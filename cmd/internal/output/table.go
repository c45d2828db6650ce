package output

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Droppable is the header of a column that a table leaves out if the terminal is too narrow, the rightmost one first.
type Droppable string

const (
	// Narrow is the width of a page if no terminal says another.
	Narrow = 80
	// gap is how far apart columns are.
	gap = 2
	// legible is how much of a text is worth leaving out columns for.
	legible = 24
)

// formatTable returns a borderless table of a width. With width 0 it is as wide as its content. Rows
// without a header are pairs of a label and a value.
func formatTable(width int, header table.Row, rows ...table.Row) string {
	t := table.NewWriter()
	t.SetStyle(table.Style{
		Name: "plain",
		Box:  table.BoxStyle{PaddingRight: strings.Repeat(" ", gap)},
	})
	t.SuppressTrailingSpaces()
	columns := measure(header, rows)
	var left string
	switch {
	case width == 0:
	case header == nil:
		t.SetColumnConfigs([]table.ColumnConfig{
			{Number: 2, WidthMax: max(width-columns[0].width-gap, legible), WidthMaxEnforcer: Wrap},
		})
	default:
		left = fit(columns, width)
		t.SetColumnConfigs(configs(columns))
	}
	if header != nil {
		t.AppendHeader(header)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = Cell(row[i])
		}
		t.AppendRow(row)
	}
	if left != "" {
		left = "\n" + Wrap("(left out: "+left+"; a wider terminal, a pipe and --output json have them)", width)
	}
	return t.Render() + left
}

// column has what decides the width of a column of a table.
type column struct {
	name     string
	width    int
	text     bool // it may be cut
	optional bool
	hidden   bool
}

func measure(header table.Row, rows []table.Row) []column {
	columns := make([]column, len(header))
	for i, head := range header {
		_, may := head.(Droppable)
		columns[i] = column{name: fmt.Sprint(head), width: text.StringWidth(fmt.Sprint(head)), optional: may}
	}
	for _, row := range rows {
		for i, value := range row {
			if i == len(columns) { // there is no header
				columns = append(columns, column{})
			}
			c := &columns[i]
			_, is := value.(string)
			c.text = c.text || is
			c.width = max(c.width, text.StringWidth(fmt.Sprint(Cell(value))))
		}
	}
	return columns
}

// fit leaves out columns until a legible part of each text has room, then cuts the longest texts, and returns the names
// of what it has left out.
func fit(columns []column, width int) string {
	var left []string
	for i := len(columns) - 1; i >= 0 && total(columns, legible) > width; i-- {
		if c := &columns[i]; c.optional {
			c.hidden = true
			left = append([]string{c.name}, left...)
		}
	}
	for total(columns, width) > width {
		longest := -1
		for i, c := range columns {
			if c.text && !c.hidden && c.width > len(c.name) && (longest < 0 || c.width >= columns[longest].width) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		columns[longest].width--
	}
	return strings.Join(left, ", ")
}

// total is how wide a table is of whose texts so much is shown.
func total(columns []column, shown int) int {
	sum := -gap
	for _, c := range columns {
		switch {
		case c.hidden:
		case c.text:
			sum += gap + min(c.width, max(shown, len(c.name)))
		default:
			sum += gap + c.width
		}
	}
	return sum
}

func configs(columns []column) []table.ColumnConfig {
	list := make([]table.ColumnConfig, len(columns))
	for i, c := range columns {
		list[i] = table.ColumnConfig{Number: i + 1, Hidden: c.hidden, WidthMax: c.width, WidthMaxEnforcer: Cut}
	}
	return list
}

// Cut shortens a text to a width, and shows that it did. A wide column keeps the end, too: the end of
// an error often says what to do.
func Cut(long string, width int) string {
	const gap = " ... "
	if width < 2*legible || text.StringWidth(long) <= width {
		return text.Snip(long, width, "...")
	}
	head := text.Trim(long, (width-len(gap))/2)
	room := width - len(gap) - text.StringWidth(head)
	tail := []rune(long)
	at := len(tail)
	for at > 0 && room >= text.RuneWidth(tail[at-1]) {
		at--
		room -= text.RuneWidth(tail[at])
	}
	return head + gap + string(tail[at:])
}

// Wrap breaks a text into lines of a width, between words alone.
func Wrap(long string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(long) {
		n := text.StringWidth(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
