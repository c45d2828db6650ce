package runcmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/slots"
)

func TestProgressHasABarForEachSlot(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := barsOn(&out)
	first, second := time.Unix(0, 0).UTC(), time.Unix(900, 0).UTC()
	b.show(slots.Progress{Slot: first, Planned: 3, Recorded: 1})
	b.show(slots.Progress{Slot: first, Planned: 3, Recorded: 4})
	b.show(slots.Progress{Slot: second, Planned: 0, Recorded: 2})
	b.close()
	for _, want := range []string{"slot 1970-01-01T00:00:00Z ... done! [4 in", "slot 1970-01-01T00:15:00Z ... done! [2 in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestProgressIsNotShownInAPipe(t *testing.T) {
	t.Parallel()
	b := newBars(factory.New(factory.Config{Err: new(bytes.Buffer)}))
	b.show(slots.Progress{Recorded: 1})
	b.close()
	if b != nil {
		t.Error("there are bars")
	}
}
