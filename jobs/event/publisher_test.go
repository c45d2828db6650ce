package event_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prescient-go/prescient/jobs/event"
)

var errRefused = errors.New("refused")

func TestErrorsTellOfEachEventWhatPublishReturned(t *testing.T) {
	t.Parallel()
	some := []error{nil, errRefused, event.ErrBlocked}
	for name, test := range map[string]struct {
		err  error
		want []error
	}{
		"all were published":       {nil, []error{nil, nil, nil}},
		"some were":                {event.Partial(some), some},
		"some were, with a prefix": {fmt.Errorf("publish: %w", event.Partial(some)), some},
		"none was":                 {errRefused, []error{errRefused, errRefused, errRefused}},
		"of another batch":         {event.Partial(some[:2]), []error{errRefused, errRefused, errRefused}},
	} {
		if diff := cmp.Diff(test.want, event.Errors(test.err, 3), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := event.Errors(nil, 0); len(got) != 0 {
		t.Error(got)
	}
}

func TestAPartialErrorCountsTheEventsAndNamesTheFirstError(t *testing.T) {
	t.Parallel()
	err := event.Partial([]error{nil, errRefused, event.ErrBlocked, nil})
	if want := "2 of 4 events were not published; the first error: refused"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !errors.Is(err, errRefused) || !errors.Is(err, event.ErrBlocked) || errors.Is(err, errors.ErrUnsupported) {
		t.Error("it is not each of its errors, and no other")
	}
	if text := (&event.PartialError{Errs: []error{nil}}).Error(); text != "no event failed" {
		t.Error(text)
	}
}

func TestABatchWithoutAnErrorIsPublished(t *testing.T) {
	t.Parallel()
	for _, errs := range [][]error{nil, {nil}, {nil, nil}} {
		if err := event.Partial(errs); err != nil {
			t.Errorf("%v: %v", errs, err)
		}
	}
}

func TestEventsWithoutASubjectDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	var events []event.Event
	for _, subject := range []string{"a", "", "b", "", "a", ""} {
		events = append(events, event.Event{Subject: subject})
	}
	if diff := cmp.Diff([][]int{{0, 4}, {1}, {2}, {3}, {5}}, event.BySubject(events)); diff != "" {
		t.Error(diff)
	}
}
