package main

import (
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// order is a line of the file.
type order struct {
	id        string
	placedAt  time.Time
	shippedAt sql.NullTime // not valid: never shipped
}

// maxID is the greatest length of an order_id in bytes, which is that of the key of an entity.
const maxID = 500

// latest is the last instant that a file may have, so that a check some years later is still on the
// calendar.
var latest = grid.Max().Add(-jobs.DefaultHorizon)

var columns = []string{"order_id", "placed_at", "shipped_at"}

// badLines lists the mistakes of a file.
type badLines []string

// maxListed bounds the lines in the text of badLines.
const maxListed = 20

// Error lists the lines, one a line.
func (b badLines) Error() string {
	text := fmt.Sprintf("nothing was run; mistakes: %d\n%s", len(b), strings.Join(b[:min(len(b), maxListed)], "\n"))
	if len(b) > maxListed {
		text += fmt.Sprintf("\n... and %d more", len(b)-maxListed)
	}
	return text
}

// readOrders reads a CSV file whose header has order_id, placed_at and shipped_at, in any order and
// among other columns. If anything is wrong it returns badLines, with the number of every bad line.
func readOrders(file io.Reader) ([]order, error) {
	r := &reader{csv: csv.NewReader(file), first: map[string]int{}}
	r.csv.FieldsPerRecord = -1 // lines of another length are reported with the other mistakes
	r.csv.ReuseRecord = true
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	var orders []order
	for {
		o, err := r.readOrder()
		switch {
		case errors.Is(err, io.EOF) && len(r.bad) > 0:
			return nil, r.bad
		case errors.Is(err, io.EOF):
			return orders, nil
		case err != nil:
			return nil, err
		}
		orders = append(orders, o)
	}
}

// reader reads orders and collects mistakes.
type reader struct {
	csv    *csv.Reader
	fields int            // in the header
	at     [3]int         // where the columns are
	first  map[string]int // the line of each order_id
	bad    badLines
}

func (r *reader) readHeader() error {
	header, err := r.csv.Read()
	switch parse, ok := errors.AsType[*csv.ParseError](err); {
	case errors.Is(err, io.EOF):
		return badLines{"line 1: the file is empty: it must begin with a header, " + strings.Join(columns, ",")}
	case ok:
		return badLines{lineOf(parse)}
	case err != nil:
		return fmt.Errorf("read line 1: %w", err)
	case strings.HasPrefix(header[0], "\uFEFF"):
		return badLines{"line 1: the file begins with a byte order mark: save it as UTF-8 without one"}
	}
	line, _ := r.csv.FieldPos(0)
	r.fields = len(header)
	var bad badLines
	for i, name := range columns {
		r.at[i] = slices.Index(header, name)
		if r.at[i] < 0 {
			bad = append(bad, fmt.Sprintf("line %d: the header has no column %s", line, name))
		} else if slices.Contains(header[r.at[i]+1:], name) {
			bad = append(bad, fmt.Sprintf("line %d: the header has more than one column %s", line, name))
		}
	}
	if bad != nil {
		return bad
	}
	return nil
}

// readOrder reads one line. Its error is io.EOF, or that of reading the file.
func (r *reader) readOrder() (order, error) {
	record, err := r.csv.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		r.bad = append(r.bad, lineOf(parse))
		return order{}, nil
	}
	if err != nil {
		return order{}, err
	}
	line, _ := r.csv.FieldPos(0)
	wrong := func(format string, args ...any) {
		r.bad = append(r.bad, fmt.Sprintf("line %d: %s", line, fmt.Sprintf(format, args...)))
	}
	if len(record) != r.fields {
		wrong("it has %d fields, the header has %d", len(record), r.fields)
		return order{}, nil
	}
	o := order{id: strings.Clone(record[r.at[0]])}
	if rule := wrongID(o.id); rule != "" {
		wrong("order_id: %s", rule)
	} else if first, again := r.first[o.id]; again {
		wrong("order_id %q: line %d has it, too", o.id, first)
	} else {
		r.first[o.id] = line
	}
	if o.placedAt, err = parseTime(record[r.at[1]]); err != nil {
		wrong("placed_at %v", err)
	}
	if text := record[r.at[2]]; text != "" {
		if o.shippedAt.Time, err = parseTime(text); err != nil {
			wrong("shipped_at %v", err)
		}
		o.shippedAt.Valid = true
	}
	return o, nil
}

func lineOf(err *csv.ParseError) string { return fmt.Sprintf("line %d: %v", err.Line, err.Err) }

// wrongID says what is wrong with an order_id. Empty: nothing.
func wrongID(id string) string {
	switch {
	case strings.TrimSpace(id) == "":
		return "must not be empty"
	case len(id) > maxID:
		return fmt.Sprintf("must be at most %d bytes, is %d", maxID, len(id))
	case !utf8.ValidString(id) || strings.ContainsRune(id, 0):
		return "must be UTF-8 without NUL bytes"
	}
	return ""
}

// parseTime reads an instant. It rounds up to the microsecond of PostgreSQL, which does not change
// the slot.
func parseTime(text string) (time.Time, error) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil { // stricter than time.Parse
		return t, fmt.Errorf("%q: must be a time of RFC 3339, such as 2026-05-01T13:05:00Z", text)
	}
	if up := t.Truncate(time.Microsecond); up.Before(t) {
		t = up.Add(time.Microsecond)
	}
	if t.Before(grid.Min()) || t.After(latest) {
		first := grid.Min().Format(time.DateOnly)
		return t, fmt.Errorf("%q: must be from %s to %s", text, first, latest.Format(time.DateOnly))
	}
	return t.UTC(), nil
}
