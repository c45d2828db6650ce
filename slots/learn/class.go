package learn

import (
	"encoding/json"
	"strings"
)

// maxClass is how many bytes a class has that is one of its own.
const maxClass = 200

// ClassOf returns the class of a row with a payload, by a field of it: a text as it is, a number or a boolean as in JSON. It is
// empty where there is none.
func ClassOf(payload json.RawMessage, field string) string {
	if field == "" || len(payload) == 0 {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return ""
	}
	value := string(fields[field])
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		return ""
	}
	var text string
	if json.Unmarshal(fields[field], &text) != nil {
		text = value
	}
	if len(text) > maxClass {
		return ""
	}
	return text
}
