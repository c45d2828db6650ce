package file

import (
	"encoding/json"
	"fmt"

	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/event"
)

// encode returns the lines of a batch, without anything that a terminal acts on, and an error for
// each event that has none: one that is no valid CloudEvent, and those of its subject after it.
func encode(events []event.Event) (lines []byte, errs []error) {
	errs = make([]error, len(events))
	failed := map[string]bool{} // by subject
	for i, e := range events {
		if e.Subject != "" && failed[e.Subject] {
			errs[i] = event.ErrBlocked
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			errs[i] = fmt.Errorf("encode event %q: %w", e.ID, err)
			failed[e.Subject] = true
			continue
		}
		lines = append(append(lines, plain.JSON(line)...), '\n')
	}
	return lines, errs
}
