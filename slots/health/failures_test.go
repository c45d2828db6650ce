package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots"
)

// The command that a finding recommends lists the rows: those that wait for a retry, or those that
// were given up.
func TestTheRemedyOfFailingChecksShowsTheirRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		job  slots.JobStatus
		want string
	}{
		"all gave up":                         {slots.JobStatus{Failed: 3, GaveUp: 3, LastGaveUp: 3}, "jobs history --outcome failed --job x"},
		"all wait":                            {slots.JobStatus{Failed: 3}, "jobs list --job x"},
		"more gave up before than wait now":   {slots.JobStatus{Failed: 8, GaveUp: 5}, "jobs list --job x"},
		"all gave up after they were retried": {slots.JobStatus{Failed: 6, GaveUp: 3, LastGaveUp: 3}, "jobs history --outcome failed --job x"},
	} {
		test.job.JobExec, test.job.LastSlot, test.job.LastChecked, test.job.LastFailed = "x", time.Unix(0, 0), 3, 3
		found := failing(&Report{Jobs: []slots.JobStatus{test.job}}, 50)
		if len(found) != 1 || found[0].Remedy != test.want {
			t.Errorf("%s: %+v, want %s", name, found, test.want)
		}
	}
}

// A job whose name contains the number of an order is a new job for each order.
func TestAFindingNamesSomeOfTenThousandJobs(t *testing.T) {
	t.Parallel()
	r := &Report{knows: func(string) bool { return false }}
	for i := range 10_000 {
		r.Jobs = append(r.Jobs, slots.JobStatus{JobExec: fmt.Sprintf("order.%05d", i), Unregistered: true, GaveUp: 1, Error: strings.Repeat("x", 500)})
	}
	for name, found := range map[string][]Finding{"unregistered": unregistered(r, 0), "gave up": gaveUp(r, 0)} {
		if len(found) != 1 || !strings.Contains(found[0].Text, "order.00019") || !strings.Contains(found[0].Text, " and 9980 more") || len(found[0].Text) > 4000 {
			t.Errorf("%s: %.5000s", name, found)
		}
	}
}

func TestAJobOfTheBinaryThatNothingHasRunYetNeedsARun(t *testing.T) {
	t.Parallel()
	r := &Report{knows: func(job string) bool { return job == "order.late" }}
	r.Jobs = []slots.JobStatus{{JobExec: "order.late", Unregistered: true}, {JobExec: "oder.late", Unregistered: true}}
	found := unregistered(r, 0)
	if len(found) != 2 || !strings.Contains(found[0].Text, "registered: oder.late. Run a binary") || found[0].Remedy != "jobs list --job oder.late" ||
		!strings.Contains(found[1].Text, "that this binary has") || !strings.Contains(found[1].Text, "registered: order.late.") || found[1].Remedy != "run" {
		t.Errorf("%+v", found)
	}
}

func TestASlotThatWasLeftOpenWithoutRowsHasNoStrandedOnes(t *testing.T) {
	t.Parallel()
	r := &Report{Status: slots.Status{Trouble: []slots.Trouble{{Slot: time.Unix(0, 0), State: slots.StateOpen}}}}
	found := stranded(r, 0)
	if len(found) != 1 || strings.Contains(found[0].Text, "stranded") || found[0].Remedy != "catch-up" {
		t.Errorf("%+v", found)
	}
}
