package slots

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

// Each way to look at a deadline sees each way it ends, whether somebody waited for it or not.
func TestDeadlineEnds(t *testing.T) {
	endings := map[string]struct {
		end   func(d *deadline, cancelClaim context.CancelCauseFunc)
		err   error
		cause error
	}{
		"in time":    {func(*deadline, context.CancelCauseFunc) { time.Sleep(59 * time.Second) }, nil, nil},
		"timeout":    {func(*deadline, context.CancelCauseFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, errTimeout},
		"lease lost": {func(_ *deadline, lose context.CancelCauseFunc) { lose(ErrLeaseLost) }, context.Canceled, ErrLeaseLost},
		"over":       {func(d *deadline, _ context.CancelCauseFunc) { d.end() }, context.Canceled, context.Canceled},
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
					d := &deadline{claim: claim, at: elapsed.Now().Add(time.Minute)}
					defer d.end()
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
	d := &deadline{claim: context.WithValue(t.Context(), contextKey{}, "of the claim"), at: at}
	defer d.end()
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
