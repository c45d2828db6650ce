package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/deadletter"
)

// A receiver never takes the event of 12:20 of one schedule.
func TestAScheduleGoesOnBehindAnEventThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		goesOn     bool
		stays, got string // at 13:30, and once the letters have been sent again
	}{
		"held back": {false, "12:05 12:10 12:15", "12:05 12:10 12:15 12:20 12:25 12:30 12:35 12:40 12:45 12:50 12:55 13:00"},
		"goes on": {
			true, "12:05 12:10 12:15 12:25 12:30 12:35 12:40 12:45 12:50 12:55 13:00",
			"12:05 12:10 12:15 12:25 12:30 12:35 12:40 12:45 12:50 12:55 13:00 12:20",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			broken := noon.Add(20 * time.Minute)
			receiver := &memory{fail: func(e event.Event) error {
				if e.Subject == "poisoned" && e.Time.Equal(broken) {
					return errors.New("422 Unprocessable")
				}
				return nil
			}}
			w.to = deadletter.New(receiver, deadletter.Config{DB: w.db, MaxRefusals: 2, Continue: test.goesOn})
			w.create(every("poisoned"))
			w.create(every("sound"))
			for n := 1; n <= 4; n++ {
				want := int64(0)
				if n == 2 {
					want = 1 // the first refusal
				}
				if result := w.run(slot(n)); result.Failed != want {
					t.Errorf("slot %d: %+v", n, result)
				}
			}
			if got := times(receiver.of("poisoned")); got != test.stays {
				t.Errorf("published %s, want %s", got, test.stays)
			}
			if got := len(receiver.of("sound")); got != 12 {
				t.Errorf("%d events of the other schedule", got)
			}
			if s := w.get("poisoned"); s.ErrorCount != 0 || !s.Next.Equal(slot(4).Add(5*time.Minute)) {
				t.Errorf("%+v", s)
			}
			receiver.fail = nil
			if _, err := deadletter.NewList(w.db, "").Send(t.Context(), receiver, deadletter.Filter{}); err != nil {
				t.Error(err)
			}
			if got := times(receiver.of("poisoned")); got != test.got {
				t.Errorf("published %s, want %s", got, test.got)
			}
		})
	}
}
