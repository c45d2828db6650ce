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

// MaxNesting bounds the nesting of a payload, so that a value that contains it, such as an event or
// a list, can be written as JSON. The domain payload of the database has the same bound.
const MaxNesting = 5000

// MaxStored bounds the bytes of a payload. The domain payload of the database has the same bound, of the text
// that it writes, which has a space after each comma and colon.
const MaxStored = 1 << 20

// Problem returns what is wrong with a payload: the database would refuse it, it is nested too
// deep, or it is longer than most bytes. Its numbers count with every digit that PostgreSQL stores:
// 1e5000 as 5,001 bytes. Returns an empty text if nothing is wrong, also for a nil payload.
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
	case strictjson.Deeper(payload, MaxNesting):
		return fmt.Sprintf("must be nested at most %d levels deep", MaxNesting)
	case !storableEscapes(payload):
		return `must not contain \u0000 or half a surrogate pair, which PostgreSQL cannot store`
	}
	longer, ok := writtenOut(payload)
	switch {
	case !ok:
		return fmt.Sprintf("must not contain a number of more than %d digits before its point or %d after it",
			maxWhole, maxFraction)
	case longer > 0 && len(payload)+longer > most:
		return fmt.Sprintf("must be at most %d bytes with every digit of its numbers, is %d", most, len(payload)+longer)
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

// The most digits of a number in PostgreSQL, before and after its point.
const (
	maxWhole    = 131_072
	maxFraction = 16_383
)

// writtenOut returns how many bytes longer valid JSON gets when PostgreSQL stores it, which writes
// out the digits of every number: 1e5000 becomes 5,001 bytes. It returns false if a number has more
// digits than PostgreSQL can store.
func writtenOut(text []byte) (longer int, ok bool) {
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
			whole, fraction := digits(string(text[start:i]))
			if whole > maxWhole || fraction > maxFraction {
				return 0, false
			}
			longer += max(0, whole+fraction-(i-start))
			i-- // the byte that ends a number may begin a string
		}
	}
	return longer, true
}

// digits returns how many digits a number of JSON has before and after its point when it is written
// without an exponent.
func digits(number string) (whole, fraction int) {
	mantissa, exponent := strings.TrimPrefix(number, "-"), 0
	if e := strings.IndexAny(mantissa, "eE"); e >= 0 {
		// Beyond these bounds any number has too many digits. Atoi returns the nearest int if the
		// exponent does not fit.
		exponent, _ = strconv.Atoi(mantissa[e+1:])
		exponent = min(max(exponent, -2*maxWhole), 2*maxWhole)
		mantissa = mantissa[:e]
	}
	before, after, _ := strings.Cut(mantissa, ".")
	whole, fraction = len(before)+exponent, len(after)-exponent
	if zeros := len(before+after) - len(strings.TrimLeft(before+after, "0")); zeros == len(before+after) {
		whole = 1
	} else {
		whole -= zeros
	}
	return max(whole, 1), max(fraction, 0)
}
