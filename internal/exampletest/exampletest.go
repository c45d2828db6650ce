// Package exampletest runs the examples of a package on what a test gives them. go test runs an
// example only if it has an output, and an example has no testing.T.
package exampletest

import (
	"context"
	"log/slog"
	"testing"
)

// Run runs each example, and fails the test for an error that one of them logs. The test must not be
// parallel: meanwhile it replaces the default logger.
func Run(t *testing.T, examples map[string]func()) {
	t.Helper()
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			slog.SetDefault(slog.New(handler{t}))
			example()
		})
	}
}

// handler fails a test for each record of an error. Debug records, such as of a statement that a stop has cancelled,
// are none.
type handler struct{ t *testing.T }

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h handler) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h handler) WithGroup(string) slog.Handler                    { return h }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	failed := r.Level >= slog.LevelError
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		_, isError := a.Value.Any().(error)
		failed = failed || isError
		text += " " + a.String()
		return true
	})
	h.t.Log(text)
	if failed {
		h.t.Fail()
	}
	return nil
}
