package nested

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// KeysOnce refuses JSON with an object that has a key twice: package encoding/json takes the last one, and drops the other without a word.
// It goes as deep as the text, so one that nobody has bounded is to be read by that package first.
func KeysOnce(text []byte) error {
	return keysOnce(json.NewDecoder(bytes.NewReader(text)))
}

func keysOnce(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	for seen := map[json.Token]bool{}; (start == json.Delim('{') || start == json.Delim('[')) && d.More(); {
		if start == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("it has %v twice, and only one of them would be read", key)
			}
			seen[key] = true
		}
		if err := keysOnce(d); err != nil {
			return err
		}
	}
	if _, compound := start.(json.Delim); compound {
		_, err = d.Token()
	}
	return err
}
