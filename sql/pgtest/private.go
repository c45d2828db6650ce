package pgtest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/prescient-go/prescient/internal/embedded"
)

// Private returns a server of the test's own, for faults that other tests must not see. It is not
// started. At the end of the test it is stopped, and its directory removed. settings override the
// usual ones, which do not wait for a disk and use little memory.
func Private(t testing.TB, settings map[string]string) *embedded.Server {
	t.Helper()
	dir, err := os.MkdirTemp(tempRoot(), "prescient-private-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // root starts the server as another user
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"fsync": "off", "shared_buffers": "16MB"}
	for name, value := range settings {
		all[name] = value
	}
	server, err := embedded.Open(embedded.Config{Dir: dir, Settings: all, Cache: cacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.WithoutCancel(t.Context())), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return server
}
