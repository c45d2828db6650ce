// Package strictjson decodes JSON that comes from outside. Package encoding/json reads "Next" as
// the field "next", uses the last of two equal keys, and replaces invalid text by U+FFFD. Here each
// of these is an error that names the place.
//
// The names of a struct's fields must match exactly. Elsewhere, as in a payload, keys that differ
// in case are different keys.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Text is a string for people, such as the text of an error. Invalid bytes in it become U+FFFD.
type Text string

// Unmarshal decodes the one JSON value of text. Every field must be known.
func Unmarshal(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if unknown := (&scanner{text: text, strict: true}); strings.HasPrefix(err.Error(), "json: unknown field ") {
			if placed := unknown.value(shapeOf(v)); placed != nil {
				return placed
			}
		}
		return err
	}
	if err := dec.Decode(new(json.RawMessage)); !errors.Is(err, io.EOF) {
		return errors.New("it goes on after the first value")
	}
	return Verify(text, v)
}

// UnmarshalSome is Unmarshal for objects that may have unknown fields, which it drops.
func UnmarshalSome(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	return Verify(text, v)
}

// Check returns an error for a text that is not a JSON value, or has a key twice or invalid bytes.
func Check(text []byte) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return err
	}
	return Verify(text, new(any))
}

// Verify returns the error that Unmarshal would return, for JSON that package encoding/json has
// already decoded into v. It takes about 0.7 of the time of decoding.
func Verify(text []byte, v any) error {
	s := scanner{text: text}
	if err := s.value(shapeOf(v)); err != nil {
		return err // a nil *placed would be a non-nil error
	}
	return nil
}
