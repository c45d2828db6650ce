package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs/event"
)

func numbered(n int, data string) []event.Event {
	var list []event.Event
	for i := range n {
		list = append(list, event.Event{ID: fmt.Sprint(i), Source: "/", Type: "t", Data: json.RawMessage(`"` + data + `"`)})
	}
	return list
}

// A pipe takes 64 KiB at once, so each of these batches needs many writes of a few bytes.
func TestABatchThatIsLongerThanAPipeArrivesWhole(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	done := make(chan error, 1)
	go func() {
		s := &stream{to: w}
		for range 3 {
			if err := s.Publish(t.Context(), numbered(500, strings.Repeat("x", 1000))); err != nil {
				done <- err
				break
			}
		}
		done <- w.Close()
	}()
	var text bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{&text}, struct{ io.Reader }{r}, make([]byte, 777)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(text.Bytes()) {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil || e.ID != fmt.Sprint(n%500) {
			t.Fatalf("line %d: %v: %.100s", n, err, line)
		}
		n++
	}
	if n != 1500 {
		t.Errorf("%d lines", n)
	}
}

// breaking fails once, after 10 bytes.
type breaking struct {
	bytes.Buffer
	broken bool
}

func (b *breaking) Write(text []byte) (int, error) {
	if b.broken {
		return b.Buffer.Write(text)
	}
	b.broken = true
	n, _ := b.Buffer.Write(text[:10])
	return n, errors.New("broken")
}

func TestAfterABrokenWriteTheNextLineIsWhole(t *testing.T) {
	t.Parallel()
	var to breaking
	s := &stream{to: &to}
	if err := s.Publish(t.Context(), numbered(1, "a")); err == nil {
		t.Fatal("it was published")
	}
	for range 2 {
		if err := s.Publish(t.Context(), numbered(1, "b")); err != nil {
			t.Fatal(err)
		}
	}
	line := `{"specversion":"1.0","id":"0","source":"/","type":"t","datacontenttype":"application/json","data":"b"}` + "\n"
	if want := `{"specvers` + "\n" + line + line; to.String() != want {
		t.Errorf("%s\nwant %s", to.String(), want)
	}
}
