package scheduleapi

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"

	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// patch changes the fields that a request names by RFC 7396, and keeps the other fields.
func (a *api) patch(w http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	changes, err := readPatch(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	s, err := a.changed(r, schedule.Update, func(tx jobs.DB) (schedule.Schedule, error) {
		return a.Store.Edit(r.Context(), tx, id, version, func(was schedule.Spec) (schedule.Spec, error) {
			merged, err := patched(newBody(was), changes)
			if _, changed := changes["payload"]; !changed {
				merged.Payload = was.Payload
			}
			if err == nil {
				merged.ID, err = sameID(merged.ID, id)
			}
			return merged.spec(), err
		})
	})
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewView(s), nil
}

// readPatch reads the fields that a request changes. Their names must be exact, because an unknown
// field would silently change nothing.
func readPatch(r *http.Request) (map[string]any, error) {
	var text json.RawMessage
	if err := web.Decode(r, &text, mergePatch); err != nil {
		return nil, err
	}
	if problem := payload.Problem(text, math.MaxInt); problem != "" {
		return nil, &jobs.FieldError{Field: "payload", Message: problem}
	}
	v, err := readAny(text)
	if err != nil {
		return nil, web.Unreadable(err)
	}
	changes, ok := v.(map[string]any)
	if !ok {
		return nil, web.NewProblem(http.StatusBadRequest, "the body: want an object of the fields to change")
	}
	return changes, web.Parse(text, new(body))
}

// patched returns a body after the changes.
func patched(b body, changes map[string]any) (merged body, err error) {
	text, err := written(b)
	if err != nil {
		return b, err
	}
	was, err := readAny(text)
	if err != nil {
		return b, err
	}
	if text, err = written(merge(was, changes)); err != nil {
		return b, err
	}
	err = web.Parse(text, &merged)
	return merged, err
}

// written returns a value as JSON. It keeps the characters of HTML, because a payload has a largest size in bytes.
func written(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return text.Bytes(), err
}

// readAny reads a JSON value. Numbers keep their digits.
func readAny(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// merge applies a merge patch to a JSON value, which it may change.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok { // a patch replaces a value that is not an object
		merged = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], change)
		}
	}
	return merged
}
