package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/spoken"
)

// placed is an error with its place.
type placed struct {
	path    string // such as results[0].next; empty: the whole value
	problem string
}

func (p *placed) Error() string { return cmp.Or(p.path, "it") + " " + p.problem }

// in adds a key, or an element of a list, to the beginning of the path.
func (p *placed) in(step string) *placed {
	if p.path != "" && p.path[0] != '[' {
		step += "."
	}
	p.path = step + p.path
	return p
}

// scanner reads valid JSON. It reads bytes, because tokens would take twice as long as decoding the
// text.
type scanner struct {
	text   []byte
	at     int
	keys   [][]byte // of all open objects
	strict bool     // also refuse fields that no name is like
}

func (s *scanner) skip() {
	for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\r\n,:"), s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) value(of *shape) *placed {
	s.skip()
	switch s.text[s.at] {
	case '{':
		return s.object(of)
	case '[':
		return s.list(of)
	case '"':
		if problem := wrong(s.quoted()); problem != "" && !of.lossy {
			return &placed{problem: problem}
		}
		return nil
	}
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n,]}", s.text[s.at]) < 0 {
		s.at++
	}
	return nil
}

func (s *scanner) list(of *shape) *placed {
	elem := cmp.Or(of.elem, free)
	s.at++
	for i := 0; ; i++ {
		if s.skip(); s.text[s.at] == ']' {
			s.at++
			return nil
		}
		if err := s.value(elem); err != nil {
			return err.in("[" + strconv.Itoa(i) + "]")
		}
	}
}

func (s *scanner) object(of *shape) *placed {
	s.at++
	first := len(s.keys)
	for {
		if s.skip(); s.text[s.at] == '}' {
			s.at++
			break
		}
		quoted := s.quoted()
		if problem := wrong(quoted); problem != "" && !of.lossy {
			return &placed{problem: "has a key that " + problem}
		}
		key := plain(quoted)
		inner, err := of.field(key, s.strict)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, key)
		if err := s.value(inner); err != nil {
			return err.in(string(key))
		}
	}
	if key, is := twice(s.keys[first:]); is {
		return &placed{problem: fmt.Sprintf("has %s twice, and only one of them would be read", key)}
	}
	s.keys = s.keys[:first]
	return nil
}

// field returns the shape of a key's value. It refuses a key that package encoding/json would take
// for a field of another name. If strict, it refuses every unknown field.
func (s *shape) field(key []byte, strict bool) (*shape, *placed) {
	if s.fields == nil {
		return cmp.Or(s.elem, free), nil
	}
	if known := s.fields[string(key)]; known != nil {
		return known, nil
	}
	for name := range s.fields {
		if strings.EqualFold(name, string(key)) {
			return nil, &placed{problem: fmt.Sprintf("has the unknown field %q: want %q", key, name)}
		}
	}
	if strict {
		return nil, &placed{problem: fmt.Sprintf("has the unknown field %q%s", key,
			spoken.Meant(string(key), slices.Collect(maps.Keys(s.fields))))}
	}
	return free, nil
}

// quoted reads a string, and returns it with its quotes.
func (s *scanner) quoted() []byte {
	begin := s.at
	s.at = stringEnd(s.text, s.at) + 1
	return s.text[begin:s.at]
}

// plain returns the text of a string.
func plain(quoted []byte) []byte {
	var text string
	if bytes.IndexByte(quoted, '\\') >= 0 && json.Unmarshal(quoted, &text) == nil {
		return []byte(text)
	}
	return quoted[1 : len(quoted)-1]
}

// wrong returns what package encoding/json would replace in a string. Empty: nothing.
func wrong(quoted []byte) string {
	if !utf8.Valid(quoted) {
		return "has bytes that are no UTF-8"
	}
	high := false // the last character was the first half of a pair
	for i := 0; i < len(quoted); i++ {
		next := bytes.IndexByte(quoted[i:], '\\')
		if high && next != 0 || next < 0 {
			break
		}
		i += next + 1
		if quoted[i] != 'u' {
			if high {
				break
			}
			continue
		}
		code, _ := strconv.ParseUint(string(quoted[i+1:i+5]), 16, 16)
		i += 4
		if low := code >= 0xDC00 && code <= 0xDFFF; low != high {
			return halfPair
		}
		high = code >= 0xD800 && code <= 0xDBFF
	}
	if high {
		return halfPair
	}
	return ""
}

const halfPair = `has half a surrogate pair, such as \ud800, which is no character`

// twice returns a key that occurs twice. It sorts the keys.
func twice(keys [][]byte) ([]byte, bool) {
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return keys[i], true
		}
	}
	return nil, false
}
