package output

import (
	"bytes"
	"errors"
	"strings"
)

// Part is the JSON of one store, of a command that works on several stores.
type Part struct {
	Store  string `json:"store"`
	Error  string `json:"error"`  // empty: none
	Result any    `json:"result"` // what the command prints for a single store; null: nothing

	text bytes.Buffer
}

// Into returns a Printer that prints into a part, for Join.
func (p *Printer) Into(part *Part) *Printer {
	return &Printer{Out: &part.text, Format: p.Format, answer: &part.Result}
}

// Join prints the parts: as a JSON array, or as the text of each below the name of its store.
func (p *Printer) Join(parts []*Part) error {
	return p.Print(parts, func() (err error) {
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
