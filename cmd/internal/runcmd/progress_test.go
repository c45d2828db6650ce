package runcmd

import (
	"bytes"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/slots"
)

func TestProgressIsNotShownInAPipe(t *testing.T) {
	t.Parallel()
	b := newBars(factory.New(factory.Config{Err: new(bytes.Buffer)}))
	showing(b)(slots.Progress{Recorded: 1})
	b.Close()
	if b != nil {
		t.Error("there are bars")
	}
}
