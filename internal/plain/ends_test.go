package plain_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/plain"
)

func TestALongTextKeepsItsBeginningAndItsEnd(t *testing.T) {
	t.Parallel()
	text := "the warehouse does not answer: " + strings.Repeat("倉庫ü", 99) + ". Restart it"
	for n := 40; n < len(text); n++ {
		got := plain.Ends(text, n)
		if len(got) > n || !utf8.ValidString(got) || !strings.HasPrefix(got, "the warehouse") || !strings.HasSuffix(got, ". Restart it") {
			t.Fatalf("%d bytes: %q", n, got)
		}
	}
	if got := plain.Ends(text, len(text)); got != text {
		t.Errorf("%q", got)
	}
}
