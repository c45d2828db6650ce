// Package payload says which JSON the database can store as a payload.
package payload

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/strictjson"
)

// maxNesting bounds how deep a payload is nested, so that what has it in it, such as an event or a list, can be written as JSON.
const maxNesting = 5000

// Problem returns what is wrong with a payload: the database would refuse it, it is nested too deep, or it is longer than
// most bytes. Returns an empty text if nothing is, also for a nil payload.
func Problem(payload json.RawMessage, most int) string {
	switch {
	case payload == nil:
		return ""
	case len(payload) > most:
		return fmt.Sprintf("must be at most %d bytes, is %d", most, len(payload))
	case !utf8.Valid(payload):
		return "must be valid UTF-8"
	case !json.Valid(payload):
		return "must be valid JSON"
	case strictjson.Deeper(payload, maxNesting):
		return fmt.Sprintf("must be nested at most %d levels deep", maxNesting)
	case !storableEscapes(payload):
		return `must not contain \u0000 or half a surrogate pair, which PostgreSQL cannot store`
	case !storableNumbers(payload):
		return fmt.Sprintf("must not contain a number of more than %d characters or with an exponent beyond %[1]d", maxNumber)
	}
	return ""
}

// storableEscapes tells whether the \u escapes of valid JSON stand for text that jsonb can hold.
func storableEscapes(text []byte) bool {
	high := false // the escape just before was the first half of a surrogate pair
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			if high {
				return false
			}
			continue
		}
		i++
		if text[i] != 'u' {
			if high {
				return false
			}
			continue
		}
		var unit [2]byte
		if _, err := hex.Decode(unit[:], text[i+1:i+5]); err != nil {
			return false
		}
		i += 4
		code := uint16(unit[0])<<8 | uint16(unit[1])
		low := code >= 0xDC00 && code <= 0xDFFF
		if code == 0 || low != high {
			return false
		}
		high = code >= 0xD800 && code <= 0xDBFF
	}
	return !high
}

// maxNumber bounds the characters of a number in a payload, and its exponent. jsonb holds every digit of a number:
// some it refuses, and some of a few bytes it gives back as 100 kB.
const maxNumber = 1000

// storableNumbers tells whether the numbers of valid JSON are within maxNumber.
func storableNumbers(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			start := i
			for i < len(text) && strings.IndexByte("+-.eE0123456789", text[i]) >= 0 {
				i++
			}
			if !storableNumber(string(text[start:i])) {
				return false
			}
			i-- // what ends a number may begin a string
		}
	}
	return true
}

func storableNumber(number string) bool {
	if len(number) > maxNumber {
		return false
	}
	e := strings.IndexAny(number, "eE")
	if e < 0 {
		return true
	}
	exponent, err := strconv.Atoi(number[e+1:])
	return err == nil && -maxNumber <= exponent && exponent <= maxNumber
}
