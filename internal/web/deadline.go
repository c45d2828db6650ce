package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"
)

const (
	// readDeadline is how long a request that reads may take, and changeDeadline one that changes
	// something.
	readDeadline   = 10 * time.Second
	changeDeadline = 30 * time.Second
	// lateGrace is how much later the server answers for a handler that ignores the end of its context,
	// as a read on a dead network does.
	lateGrace = time.Second
)

// ErrLate is the cause of a context that has ended because its request has taken too long.
var ErrLate = errors.New("the database has not answered in time: try again in a moment")

// Deadline returns a handler that answers each request in time, whatever the database does. The
// context of a request ends at its deadline: after 10 s, or 30 s for a request that changes something.
// If next has not answered a second later, Deadline answers 503 with a text of the given media type.
// It holds an answer back until it is complete, so it is not for streams.
func Deadline(next http.Handler, media, late string) http.Handler {
	return deadlines(readDeadline, changeDeadline, next, media, late)
}

func deadlines(read, change time.Duration, next http.Handler, media, late string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := change
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			d = read
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), d, ErrLate)
		defer cancel()
		answer, ended := &held{header: w.Header().Clone(), status: http.StatusOK}, make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			next.ServeHTTP(answer, r.WithContext(ctx))
		}()
		timer := time.NewTimer(d + lateGrace)
		defer timer.Stop()
		select {
		case failed := <-ended:
			if failed != nil {
				panic(failed) // as next would have done it
			}
			answer.send(w)
		case <-timer.C:
			w.Header().Set("Content-Type", media)
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, late)
		}
	})
}

// held is an answer that is sent when it is complete.
type held struct {
	header http.Header
	status int
	bytes.Buffer
}

func (h *held) Header() http.Header    { return h.header }
func (h *held) WriteHeader(status int) { h.status = status }

func (h *held) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), h.header)
	w.WriteHeader(h.status)
	_, _ = w.Write(h.Bytes()) // an error means that the client has gone
}

// lateProblem is the late answer of an API.
const lateProblem = `{"title":"Service Unavailable","status":503,` +
	`"detail":"the database has not answered in time: try again in a moment"}` + "\n"
