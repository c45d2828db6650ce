package jobs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
)

type order struct {
	ID    int      `json:"id"`
	Lines []string `json:"lines,omitempty"`
}

func TestAPayloadIsReadBackAsItsType(t *testing.T) {
	t.Parallel()
	var request jobs.Request
	want := order{42, []string{"a", "b"}}
	if err := request.SetPayload(want); err != nil {
		t.Fatal(err)
	}
	job := jobs.FutureJob{Payload: request.Payload}
	got, err := jobs.Payload[order](job)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	job.Payload = json.RawMessage(`{"id": 7, "unknown": true}`)
	if got, err := jobs.Payload[*order](job); err != nil || got.ID != 7 {
		t.Error(got, err)
	}
}

func TestAPayloadThatIsMissingOrOfAnotherTypeIsAnError(t *testing.T) {
	t.Parallel()
	job := row("42")
	if _, err := jobs.Payload[order](job); !errors.Is(err, jobs.ErrNoPayload) {
		t.Error(err)
	}
	job.Payload = json.RawMessage(`{"id": "x"}`)
	if _, err := jobs.Payload[order](job); err == nil || !strings.Contains(err.Error(), "remind on order 42") {
		t.Error(err)
	}
	request := jobs.Request{Payload: job.Payload}
	if err := request.SetPayload(func() {}); err == nil || string(request.Payload) != string(job.Payload) {
		t.Errorf("a function is a payload: %v, %s", err, request.Payload)
	}
}

func TestAKeyReadsWellInAMessage(t *testing.T) {
	t.Parallel()
	for want, key := range map[string]jobs.Key{
		"remind on order 42":             {JobExec: "remind", EntityName: "order", EntityKey: "42"},
		"remind on order 42 item line 3": {JobExec: "remind", EntityName: "order", EntityKey: "42", ItemKey: "line 3"},
	} {
		if got := key.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
