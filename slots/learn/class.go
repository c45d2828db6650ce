package learn

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"

	"github.com/tidwall/gjson"
)

// maxClass is how many bytes a class has that is one of its own.
const maxClass = 200

// classOf returns the class of a row with a payload, by a field of it: a text as it is, a boolean as in JSON, and a number
// as the database writes it, where 1e2 is 100. It is empty where there is none.
func classOf(payload json.RawMessage, field string) string {
	if field == "" {
		return ""
	}
	var class string
	gjson.ParseBytes(payload).ForEach(func(key, value gjson.Result) bool {
		if key.Str == field { // the last one counts, as in the database
			class = text(value)
		}
		return true
	})
	if len(class) > maxClass {
		return ""
	}
	return class
}

func text(value gjson.Result) string {
	switch value.Type {
	case gjson.String:
		return value.Str
	case gjson.Number:
		return plain(value.Raw)
	case gjson.True, gjson.False:
		return value.Raw
	}
	return "" // null, an object, a list
}

var number = regexp.MustCompile(`^-?[0-9]+\.?([0-9]*)([eE][+-]?[0-9]+)?$`)

// plain writes a number without an exponent, with as many digits after the point as it has. Of one that is too long for a class
// it returns nothing.
func plain(text string) string {
	parts := number.FindStringSubmatch(text)
	if parts == nil {
		return ""
	}
	power := 0
	if parts[2] != "" {
		var err error
		if power, err = strconv.Atoi(parts[2][1:]); err != nil || power < -maxClass || power > maxClass {
			return ""
		}
	}
	value, _ := new(big.Rat).SetString(text)
	return value.FloatString(max(0, len(parts[1])-power))
}
