package slots

import (
	"encoding/json"
	"strings"

	"github.com/prescient-go/prescient/internal/guard"
)

// maxTraced is how much of an error goes into a trace: whole it is in the row, until the next.
const maxTraced = 200

// attempt is an entry of a row's trace; see prescient.trace_entry.
type attempt struct {
	What  string `json:"what"`
	At    int64  `json:"at,omitempty"` // milliseconds, of what was not checked
	Slot  int64  `json:"slot"`         // seconds
	Run   string `json:"run"`
	Late  *int64 `json:"late,omitempty"` // milliseconds
	Took  *int64 `json:"took,omitempty"` // microseconds
	Error string `json:"error,omitempty"`
}

// trace returns the entry for an outcome; empty where there is to be none: what ends a row is in the columns of history.
func (r *run) trace(o *outcome) string {
	if o.verdict.Outcome != "" || o.untraced {
		return ""
	}
	a := attempt{What: string(o.verdict.Move), Slot: r.slot.Unix(), Run: r.cfg.Name, Error: short(o.verdict.Error)}
	if o.ran {
		a.Late, a.Took = new(o.lateness.Milliseconds()), new(o.duration.Microseconds())
	}
	if o.verdict.Move == guard.MoveDefer {
		a.What, a.At = "deferred", r.Now().UnixMilli()
	}
	text, _ := json.Marshal(a)
	return string(text)
}

func short(text string) string {
	if len(text) > maxTraced {
		text = strings.ToValidUTF8(text[:maxTraced], "") + "..."
	}
	return text
}
