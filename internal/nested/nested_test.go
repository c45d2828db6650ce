package nested

import (
	"strings"
	"testing"
)

func TestHowDeepJSONIs(t *testing.T) {
	t.Parallel()
	for text, depth := range map[string]int{
		``: 0, `1`: 0, `"[[["`: 0, `[]`: 1, `[[], {}]`: 2, `{"a": [1, {"b": "}]\"[[["}], "[": "{\\"}`: 3, `[["\\"], ["]"]]`: 2,
		strings.Repeat("[", 50) + strings.Repeat("]", 50): 50,
	} {
		if Deeper([]byte(text), depth) || depth > 0 && !Deeper([]byte(text), depth-1) {
			t.Errorf("%s is not %d deep", text, depth)
		}
	}
}
