package health

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots"
)

// Whoever follows the advice is to find the rows: those that wait to be tried again among what waits, the others in history.
func TestTheRemedyOfFailingChecksShowsTheirRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		job  slots.JobStatus
		want string
	}{
		"all gave up":                       {slots.JobStatus{Failed: 3, GaveUp: 3}, "history list --job x"},
		"all wait":                          {slots.JobStatus{Failed: 3}, "jobs list --job x"},
		"more gave up before than wait now": {slots.JobStatus{Failed: 8, GaveUp: 5}, "jobs list --job x"},
	} {
		test.job.JobExec, test.job.LastSlot, test.job.LastChecked, test.job.LastFailed = "x", time.Unix(0, 0), 3, 3
		found := failing(&Report{Jobs: []slots.JobStatus{test.job}}, 50)
		if len(found) != 1 || found[0].Remedy != test.want {
			t.Errorf("%s: %+v, want %s", name, found, test.want)
		}
	}
}
