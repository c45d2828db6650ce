package plain_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/plain"
)

func TestJSONKeepsItsValueAndLosesWhatATerminalActsOn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a": "plain ü 漢 😀"}`:   `{"a": "plain ü 漢 😀"}`,
		"\"\u009b31m\"":          `"\u009b31m"`,
		"\"\u007f\u0080\"":       `"\u007f\u0080"`,
		"\"a\u202eb\u2066\"":     `"a\u202eb\u2066"`,
		"\"\u200e\u061c\u2028\"": `"\u200e\u061c\u2028"`,
		"\"\U000e0001\"":         `"\udb40\udc01"`,
		"\"\x9b31m\"":            `"\ufffd31m"`,
		"\"\ufffd\"":             "\"\ufffd\"",
	} {
		if got := string(plain.JSON([]byte(text))); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzJSONKeepsItsValue(f *testing.F) {
	f.Add("a\u009bb\u202e\U000e0001\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		whole, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := plain.JSON(bytes.Clone(whole))
		var before, after string
		if err := json.Unmarshal(whole, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &after); err != nil || before != after || !utf8.Valid(got) {
			t.Errorf("%q became %q, %v", whole, got, err)
		}
	})
}
