package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
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
		`1`: "", ` [] `: "", `{}`: "", `{"a": 1, "A": {"a": [{"a": 1}, {"a": 2}]}}`: "", `["a", "a"]`: "", `[true,null,-1e5]`: "",
		`{"": 1, "b": 2, "": 1}`: "it has  twice", `{"a": 1, "b": 2, "a": 1}`: "it has a twice, and only one of them would be read",
		`[{"x": [{"\u0061": 1, "a": null}]}]`:                          "[0].x[0] has a twice, and only one of them would be read",
		"{\"x:\" \n: [\"a\", \":\"], \"a\\\"\": {\"a\": 1}, \"a\": 2}": "", `{"": 1, " ": 2}`: "", `["a:", "a:"]`: "",
		"{\"a\\\"\": 1, \"b\" :2, \"a\\u0022\"\t: 3}": `it has a" twice`,
		`{"a": [1}`:         "invalid character '}'",
		`{"a": 1`:           "unexpected end",
		"{\"a\": \"\xff\"}": "a has bytes that are no UTF-8", "{\"\xff\": 1}": "it has a key that has bytes that are no UTF-8",
		`{"a": ["\ud83d\ude00", "\\ud800", "x\ud800"]}`: `a[2] has half a surrogate pair, such as \ud800`,
		`"\ud800x"`: "half a", `"\ud800\n"`: "half a", `"\udc00"`: "half a", `"\ud800\ud800"`: "half a", `"\uDBFF\uDFFF\u0041\n\""`: "",
		`"\ud800 \udc00"`: "half a", `{"\udfff": 1}`: "it has a key that has half a",
	} {
		if err := Check([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

type inner struct {
	Next *string `json:"next"`
	Say  Text    `json:"say"`
}

type answer struct {
	inner
	Results []inner          `json:"results"`
	Named   map[string]inner `json:"named"`
	Payload json.RawMessage  `json:"payload"`
	Any     any              `json:"any"`
	At      time.Time        `json:"at"`
	Self    *answer          `json:"self"`
	Skipped int              `json:"-"`
	Plain   int
}

func TestTheNamesOfFieldsAreExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"next": "a", "say": "b", "results": [{"next": null}], "named": {"x": {}, "X": {}}, "at": "2030-01-01T00:00:00Z", "Plain": 1}`: "",
		`{"payload": {"next": 1, "Next": 2}, "any": [{"a": 1, "A": 2}]}`:                                                                "",
		`{"next": "a", "Next": null}`:                               `it has the unknown field "Next": want "next"`,
		`{"NEXT": "a"}`:                                             `it has the unknown field "NEXT": want "next"`,
		`{"results": [{}, {"ne\u0058t": null}]}`:                    `results[1] has the unknown field "neXt": want "next"`,
		`{"reſults": []}`:                                           `want "results"`,
		`{"named": {"a": {"Say": ""}}}`:                             `named.a has the unknown field "Say": want "say"`,
		`{"self": {"self": {"Self": null}}}`:                        `self.self has the unknown field "Self"`,
		`{"results": [{}, {"nxt": null}]}`:                          `results[1] has the unknown field "nxt": did you mean next?`,
		`{"nothing": 1}`:                                            `it has the unknown field "nothing"`,
		`{"plain": 1}`:                                              `want "Plain"`,
		`{"say": "\ud800", "results": [{"say": "` + "\xff" + `"}]}`: "",
		`{"next": "\ud800"}`:                                        `next has half a surrogate pair`,
		`{"payload": {"a": "\ud800"}}`:                              "",
		`{"payload": {"a": 1, "a": 2}}`:                             `payload has a twice`,
		`{"next": null} {}`:                                         "it goes on after the first value",
		`{"next": null}}`:                                           "it goes on after the first value",
		``:                                                          "EOF",
	} {
		err := Unmarshal([]byte(text), new(answer))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"other": 1, "next": "a"}`: "", `{"other": 1, "Next": "a"}`: `want "next"`, `{"other": 1, "other": 2}`: "it has other twice",
	} {
		var got answer
		if err := UnmarshalSome([]byte(text), &got); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if Unmarshal([]byte(text), new(answer)) == nil {
			t.Errorf("%s has a field that is not known, and was taken", text)
		}
	}
}

// The scanner reads to its end everything that package encoding/json decodes.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"results": [{"next": "\ud83d\ude00"}], "payload": {"a": [1, -2e3, true, null, "\\\""]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v answer
		if json.Unmarshal(text, &v) != nil {
			return
		}
		s := scanner{text: text}
		if err := s.value(shapeOf(&v)); err == nil && len(bytes.TrimSpace(text[s.at:])) > 0 {
			t.Errorf("%q was read as far as %d", text, s.at)
		}
	})
}
