package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// KeysOnce refuses JSON with an object that has a key twice: package encoding/json takes the last one, and drops the other without a word.
// It reads bytes, and not tokens, which would take twice as long as to decode the text.
func KeysOnce(text []byte) error {
	if !json.Valid(text) {
		return json.NewDecoder(bytes.NewReader(text)).Decode(new(json.RawMessage))
	}
	var keys [][]byte // of all that is open
	var first []int   // the first key of each object or list that is
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := stringEnd(text, i)
			if after := bytes.TrimLeft(text[end+1:], " \t\r\n"); bytes.HasPrefix(after, []byte(":")) {
				keys = append(keys, plain(text[i:end+1]))
			}
			i = end
		case '[', '{':
			first = append(first, len(keys))
		case ']', '}':
			n := len(first) - 1
			if key := twice(keys[first[n]:]); key != nil {
				return fmt.Errorf("it has %s twice, and only one of them would be read", key)
			}
			keys, first = keys[:first[n]], first[:n]
		}
	}
	return nil
}

// plain is what a string says.
func plain(quoted []byte) []byte {
	var text string
	if bytes.ContainsRune(quoted, '\\') && json.Unmarshal(quoted, &text) == nil {
		return []byte(text)
	}
	return quoted[1 : len(quoted)-1]
}

// twice returns a key that is there twice, and sorts them.
func twice(keys [][]byte) []byte {
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return keys[i]
		}
	}
	return nil
}
