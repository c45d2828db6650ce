package rule

import (
	"encoding/json"
	"strings"
)

// Texts are texts of SQL. The JSON of a single one is a string.
type Texts []string

// String joins the texts with commas.
func (t Texts) String() string { return strings.Join(t, ", ") }

// MarshalJSON writes a string for a single text, and a list for several.
func (t Texts) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Texts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = Texts{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}
