package checks

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/alert"
)

// A schedule whose statement fails is checked again in each slot.
func TestAFailureThatAPersonWasToldOfIsNoWarning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		finding string
		job     string
		gaveUp  bool
		quiet   bool
	}{
		{finding: "failing/mail", job: "mail", quiet: true},
		{finding: "failing/mail", job: "other"},
		{finding: "failing/mail", job: "mail", gaveUp: true},
		{finding: "publishing/schedule", job: "schedule", quiet: true},
		{finding: "publishing/schedule", job: "mail"},
		{finding: "gave-up/mail", job: "mail", gaveUp: true, quiet: true},
		{finding: "gave-up/mail", job: "mail", quiet: true},
		{finding: "gave-up/mail", job: "other", gaveUp: true},
		{finding: "gave-up/mail", job: "other"},
		{finding: "missed", job: "mail"},
	} {
		if got := told([]alert.Known{{Finding: test.finding}})(test.job, test.gaveUp); got != test.quiet {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// A look that never ends would else be the same as one that found nothing.
func TestALookThatHitsItsTimeLimitIsAWarning(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.loaded.Config.Alerts.Receiver = "ops"
	b.bindAll()
	tx := b.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("lock table prescient.event_dead")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	b.bound.tellFindings(stopped, b.Factory, time.Minute)
	if b.logs.Len() > 0 {
		t.Errorf("a process that ends: %s", b.logs.String())
	}
	b.bound.tellFindings(t.Context(), b.Factory, 100*time.Millisecond)
	const want = `level=WARN msg="findings were not told to the receiver of alerts; the next look tells them"`
	if logs := b.logs.String(); !strings.Contains(logs, want) || !strings.Contains(logs, "the look did not end within 100ms") {
		t.Errorf("%q lacks %s", logs, want)
	}
}
