package cmd

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestServeSaysWhatToDoIfItsAddressIsTaken(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	app := New(jobs.NewRegistry())
	var out bytes.Buffer
	app.Out, app.Err = &out, &out
	code := app.Run(t.Context(), []string{"serve", "--listen", taken.Addr().String()})
	const want = "another process listens there, perhaps another serve or daemon. End it, or choose another address with --listen"
	if code != Failure || !strings.Contains(out.String(), want) {
		t.Errorf("%d %s, want %s", code, &out, want)
	}
}
