package unit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// errLost is a cause of the parent.
var errLost = errors.New("lease lost")

// Each way to look at a deadline sees each way it ends, with and without a waiting goroutine.
func TestDeadlineEnds(t *testing.T) {
	endings := map[string]struct {
		end   func(d *Context, cancelClaim context.CancelCauseFunc)
		err   error
		cause error
	}{
		"in time":    {func(*Context, context.CancelCauseFunc) { time.Sleep(59 * time.Second) }, nil, nil},
		"timeout":    {func(*Context, context.CancelCauseFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, ErrTimeout},
		"lease lost": {func(_ *Context, lose context.CancelCauseFunc) { lose(errLost) }, context.Canceled, errLost},
		"over":       {func(d *Context, _ context.CancelCauseFunc) { d.End() }, context.Canceled, context.Canceled},
	}
	looks := map[string]func(ctx context.Context) (err, cause error){
		"itself": func(ctx context.Context) (error, error) { return ctx.Err(), context.Cause(ctx) },
		"child": func(ctx context.Context) (error, error) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			return child.Err(), context.Cause(child)
		},
	}
	for ending, e := range endings {
		for look, seen := range looks {
			for _, armed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					claim, lose := context.WithCancelCause(t.Context())
					defer lose(nil)
					d := NewContext(claim, elapsed.Now().Add(time.Minute))
					defer d.End()
					var done <-chan struct{}
					if armed {
						done = d.Done()
					}
					e.end(d, lose)
					synctest.Wait()
					if err, cause := seen(d); !errors.Is(err, e.err) || !errors.Is(cause, e.cause) {
						t.Errorf("%s, armed %t: the %s has the error %v, cause %v, want %v, %v", ending, armed, look, err, cause, e.err, e.cause)
					}
					if armed && isClosed(done) != (e.err != nil) {
						t.Errorf("%s: Done is closed %t", ending, isClosed(done))
					}
				})
			}
		}
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

type contextKey struct{}

func TestDeadlineIsUnarmedUntilSomebodyWaits(t *testing.T) {
	at := elapsed.Now().Add(time.Minute)
	d := NewContext(context.WithValue(t.Context(), contextKey{}, "of the claim"), at)
	defer d.End()
	if got, ok := d.Deadline(); got != at || !ok || d.Err() != nil {
		t.Errorf("Deadline is %v, %t, want %v; Err is %v", got, ok, at, d.Err())
	}
	if d.armed != nil {
		t.Error("a timer was set")
	}
	if got := d.Value(contextKey{}); got != "of the claim" {
		t.Errorf("Value is %v", got)
	}
}
