// Package plainyaml finds scalars that YAML reads as another value than their text says.
package plainyaml

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// decimal matches numbers that every reader understands in the same way. 01234 is 668 in YAML 1.1,
// and 1_000 is a text in JSON.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)

// Changed reports whether an unquoted number has another value than its digits say, and returns
// that value. Such numbers are octal, hexadecimal or binary, have underscores or leading zeros, or
// have more digits than the decoder keeps.
func Changed(node *yaml.Node) (value string, changed bool) {
	tag := node.ShortTag()
	if node.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" {
		return "", false
	}
	var v any
	if node.Decode(&v) != nil {
		return "", false // it has an error of its own
	}
	value = fmt.Sprint(v)
	f, ok := v.(float64)
	if !ok {
		return value, !decimal.MatchString(node.Value)
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	value = strconv.FormatFloat(f, 'g', -1, 64)
	if !decimal.MatchString(node.Value) {
		return value, true
	}
	// The decoder also makes floats of whole numbers beyond 64 bits.
	said, known := new(big.Rat).SetString(node.Value)
	is, _ := new(big.Rat).SetString(value)
	return value, !known || said.Cmp(is) != 0
}
