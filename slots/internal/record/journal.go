package record

import (
	"encoding/json"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/journal"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// maxInJournal bounds an error in a journal: its beginning and its end. The row has the whole error, until
// the next one.
const maxInJournal = 200

// journal returns the entry of a row's journal for an outcome, see prescient.journal_entry. It is empty
// for an outcome that ends the row, because the columns of history have that.
func (w *Writer) journal(o *row.Outcome) string {
	if o.Verdict.Outcome != "" {
		return ""
	}
	if o.Verdict.Move == guard.MoveNext && o.Ran && o.Verdict.Error == "" {
		check := journal.Check{
			Slot: w.Session.Slot, Runner: w.Session.Found.Position, Lateness: o.Lateness, Duration: o.Duration,
		}
		if line, ok := check.Short(); ok {
			return line
		}
	}
	entry := []any{o.Verdict.Move, w.Session.Slot.Unix(), w.Session.Runner}
	if o.Ran {
		entry = append(entry, o.Lateness.Milliseconds(), o.Duration.Microseconds())
	}
	if o.Verdict.Error != "" {
		entry = append(entry, plain.Ends(o.Verdict.Error, maxInJournal))
	}
	if o.Verdict.Move == guard.MoveDefer {
		entry = []any{"deferred", w.Session.Slot.Unix(), w.Session.Runner, nil, nil, nil, w.Now().UnixMilli()}
	}
	text, _ := json.Marshal(entry)
	return string(text)
}
