package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Part is the JSON of one store, of a command that works on several stores.
type Part struct {
	Store  string
	Error  string // empty: none
	Result any    // what the command prints for a single store; nil: nothing

	text bytes.Buffer
}

// MarshalJSON writes the name of the store, its error or null, and items or the result.
func (p *Part) MarshalJSON() ([]byte, error) {
	type head struct {
		Store string  `json:"store"`
		Error *string `json:"error"`
	}
	at := head{Store: p.Store}
	if p.Error != "" {
		at.Error = &p.Error
	}
	if isList(p.Result) {
		return json.Marshal(struct {
			head
			items
		}{at, items{p.Result}})
	}
	return json.Marshal(struct {
		head
		Result any `json:"result"`
	}{at, p.Result})
}

// joined is the JSON of several stores.
type joined struct {
	Stores []*Part `json:"stores"`
}

// Into returns a Printer that prints into a part, for Join.
func (p *Printer) Into(part *Part) *Printer {
	return &Printer{Out: &part.text, Format: p.Format, answer: &part.Result}
}

// Join prints the parts: as the stores of a JSON object, or as the text of each below the name of its store.
func (p *Printer) Join(parts []*Part) error {
	return p.Print(joined{append([]*Part{}, parts...)}, func() (err error) {
		first := true
		for _, part := range parts {
			if part.text.Len() == 0 {
				continue
			}
			if !first {
				err = p.Lines("")
			}
			first = false
			err = errors.Join(err, p.Lines("store "+part.Store+":"), p.Lines(strings.TrimSuffix(part.text.String(), "\n")))
		}
		return err
	})
}
