package strictjson

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

func TestAKeyIsInAnObjectOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`1`: "", `[]`: "", `{}`: "", `{"a": 1, "A": {"a": [{"a": 1}, {"a": 2}]}}`: "", `["a", "a"]`: "",
		`{"": 1, "b": 2, "": 1}`: "it has  twice", `{"a": 1, "b": 2, "a": 1}`: "it has a twice, and only one of them would be read",
		`[{"x": [{"\u0061": 1, "a": null}]}]`:                          "it has a twice, and only one of them would be read",
		"{\"x:\" \n: [\"a\", \":\"], \"a\\\"\": {\"a\": 1}, \"a\": 2}": "", `{"": 1, " ": 2}`: "", `["a:", "a:"]`: "",
		"{\"a\\\"\": 1, \"b\" :2, \"a\\u0022\"\t: 3}": `it has a" twice`,
		`{"a": [1}`: "invalid character '}'",
		`{"a": 1`:   "EOF",
	} {
		if err := KeysOnce([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
