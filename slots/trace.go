package slots

import (
	"encoding/json"
	"strings"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/trace"
)

// maxTraced is how much of an error goes into a trace: whole it is in the row, until the next.
const maxTraced = 200

// trace returns the entry of a row's trace for an outcome, see prescient.trace_entry; empty where there is to be none:
// what ends a row is in the columns of history.
func (r *run) trace(o *outcome) string {
	if o.verdict.Outcome != "" || o.untraced {
		return ""
	}
	if o.verdict.Move == guard.MoveNext && o.ran && o.verdict.Error == "" {
		check := trace.Check{Slot: r.slot, Runner: r.place, Lateness: o.lateness, Duration: o.duration, Learned: o.verdict.Learned}
		if line, ok := check.Short(); ok {
			return line
		}
	}
	entry := []any{o.verdict.Move, r.slot.Unix(), r.cfg.Name}
	if o.ran {
		entry = append(entry, o.lateness.Milliseconds(), o.duration.Microseconds())
	}
	if o.verdict.Error != "" {
		entry = append(entry, short(o.verdict.Error))
	}
	if o.verdict.Move == guard.MoveDefer {
		entry = []any{"deferred", r.slot.Unix(), r.cfg.Name, nil, nil, nil, r.Now().UnixMilli()}
	}
	if o.verdict.Learned != "" {
		entry = append(entry, nil, nil, json.RawMessage(o.verdict.Learned))
	}
	text, _ := json.Marshal(entry)
	return string(text)
}

func short(text string) string {
	if len(text) > maxTraced {
		text = strings.ToValidUTF8(text[:maxTraced], "") + "..."
	}
	return text
}
