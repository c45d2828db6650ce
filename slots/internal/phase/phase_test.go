package phase

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const grace = 20 * time.Second

func TestAStoppedRunEndsItsChecksThenItsStatementsThenItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := New(ctx, grace)
		stop()
		began := time.Now()
		for _, end := range []struct {
			name  string
			done  <-chan struct{}
			after time.Duration
		}{
			{"Stop", c.Stop.Done(), 0},
			{"Checks", c.Checks.Done(), grace},
			{"Work", c.Work.Done(), grace + ClosingTime},
			{"Last", c.Last, grace + LastTime},
		} {
			<-end.done
			if took := time.Since(began); took != end.after {
				t.Errorf("%s ended after %s, want %s", end.name, took, end.after)
			}
		}
		if !errors.Is(context.Cause(c.Checks), ErrStopped) || !errors.Is(context.Cause(c.Work), ErrStopped) {
			t.Errorf("the checks ended by %v, the statements by %v", context.Cause(c.Checks), context.Cause(c.Work))
		}
	})
}

func TestARunThatIsHaltedStopsForItsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, failure := New(t.Context(), grace), errors.New("no database")
		c.Halt(failure)
		if err := context.Cause(c.Stop); !errors.Is(err, failure) || c.Work.Err() != nil || c.Checks.Err() != nil {
			t.Errorf("stopped by %v; work: %v, checks: %v", err, c.Work.Err(), c.Checks.Err())
		}
		<-c.Last
	})
}

func TestARunThatHasEndedHasNoPhases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(t.Context(), grace)
		c.EndWork()
		c.End()
		time.Sleep(grace + 2*LastTime)
		select {
		case <-c.Last:
			t.Error("a phase came after the end")
		default:
		}
		if c.Stop.Err() == nil || c.Checks.Err() == nil || !errors.Is(context.Cause(c.Work), context.Canceled) {
			t.Error("a context goes on")
		}
	})
}

func TestAStopIsNoFailureOfTheRunWhateverItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("no database")
		ctx, stop := context.WithCancelCause(t.Context())
		stopped, failed := New(ctx, grace), New(t.Context(), grace)
		failed.Halt(context.DeadlineExceeded)
		stop(errors.New("a new version"))
		for _, c := range []*Contexts{stopped, failed} {
			<-c.Stop.Done()
			c.Halt(late)
		}
		if stopped.Failure() != nil || !errors.Is(failed.Failure(), context.DeadlineExceeded) {
			t.Errorf("%v and %v", stopped.Failure(), failed.Failure())
		}
		<-stopped.Last
		<-failed.Last
	})
}
