package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/prescient-go/prescient/jobs/schedule"
)

// patch changes what a request names, as RFC 7396 has it, and leaves the rest.
func (a *api) patch(w http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	var changes json.RawMessage
	if err := decode(r, &changes, mergePatch); err != nil {
		return nil, err
	}
	if len(changes) == 0 || changes[0] != '{' {
		return nil, problem(http.StatusBadRequest, "the body: want an object of the fields to change")
	}
	id := r.PathValue("id")
	s, err := a.Store.Edit(r.Context(), a.DB, id, version, func(was schedule.Spec) (schedule.Spec, error) {
		text, err := json.Marshal(newBody(was))
		if err != nil {
			return was, err
		}
		var b body
		if err := parse(bytes.NewReader(merge(text, changes)), &b); err != nil {
			return was, err
		}
		b.ID, err = sameID(b.ID, id)
		return b.spec(), err
	})
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewView(s), nil
}

// merge applies a merge patch to a JSON value. Numbers stay as they are written.
func merge(target, patch json.RawMessage) json.RawMessage {
	var changes map[string]json.RawMessage
	if json.Unmarshal(patch, &changes) != nil { // it is no object, and stands for itself
		return patch
	}
	merged := map[string]json.RawMessage{}
	if json.Unmarshal(target, &merged) != nil || merged == nil { // what is no object gives way to one
		merged = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if string(change) == "null" {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], change)
		}
	}
	text, _ := json.Marshal(merged) // all of it was read as JSON
	return text
}
