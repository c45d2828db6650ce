package output

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type large struct {
	Name string   `json:"name"`
	More []string `json:"more"`
}

func TestAStreamIsTheArrayOfItsElementsAndEachIsWrittenBeforeTheNext(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<x> ", 5000)
	for _, list := range [][]large{{}, {{"a", nil}}, {{text, []string{"b"}}, {text, []string{}}, {"c\n", nil}}} {
		var whole, streamed bytes.Buffer
		if err := (&Printer{Out: &whole, Format: JSON}).Print(list, nil); err != nil {
			t.Fatal(err)
		}
		all := func(yield func(large, error) bool) {
			for i, v := range list {
				if i > 0 && streamed.Len() < len(text) {
					t.Errorf("element %d comes when %d bytes are written", i, streamed.Len())
				}
				if !yield(v, nil) {
					return
				}
			}
		}
		if err := Stream(&Printer{Out: &streamed, Format: JSON}, iter.Seq2[large, error](all)); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(whole.String(), streamed.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAStreamThatFailsEndsWithItsError(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	broken := errors.New("broken")
	err := Stream(&Printer{Out: &out, Format: JSON}, func(yield func(int, error) bool) { _ = yield(1, nil) && yield(0, broken) })
	if !errors.Is(err, broken) || strings.Contains(out.String(), "]") {
		t.Errorf("%v: %s", err, out.String())
	}
}
