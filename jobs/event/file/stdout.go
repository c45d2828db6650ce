package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"

	"github.com/prescient-go/prescient/jobs/event"
)

func init() { event.Register("stdout", openStdout) }

// stream is a publisher that writes to a stream shared with other writers.
type stream struct {
	mu   sync.Mutex
	to   io.Writer
	torn bool // the last write failed, maybe within a line
}

func openStdout(_ context.Context, to *url.URL, _ event.Config) (event.Publisher, error) {
	if to.String() != "stdout:" {
		return nil, errors.New("must be stdout: and nothing else")
	}
	return &stream{to: os.Stdout}, nil
}

// Publish writes a batch. The events are with the reader of the stream, or in its pipe, when it
// returns nil.
func (s *stream) Publish(ctx context.Context, events []event.Event) error {
	lines, errs := encode(events)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write events: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.torn && len(lines) > 0 {
		lines = append([]byte("\n"), lines...)
	}
	if _, err := s.to.Write(lines); err != nil {
		s.torn = true
		return fmt.Errorf("write events: %w", err)
	}
	s.torn = false
	return event.Partial(errs)
}

// Close does nothing, as standard output is not the publisher's own.
func (s *stream) Close() error { return nil }
