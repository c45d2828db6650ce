package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// The command that a finding recommends lists the rows: those that wait for a retry, or those that
// were given up.
func TestTheRemedyOfFailingChecksShowsTheirRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		job  ledger.JobStatus
		want string
	}{
		"all gave up":                       {ledger.JobStatus{Failed: 3, GaveUp: 3, LastGaveUp: 3}, "jobs history --outcome failed --job x"},
		"all wait":                          {ledger.JobStatus{Failed: 3}, "jobs list --job x"},
		"more gave up before than wait now": {ledger.JobStatus{Failed: 8, GaveUp: 5}, "jobs list --job x"},
		"a rule reads a dropped column": {
			ledger.JobStatus{Failed: 3, Error: "read shop.orders for rule x: pq: column orders.shipped_at does not exist at position 8:45 (42703)"},
			OtherColumn,
		},
		"the table of a rule is gone":         {ledger.JobStatus{Failed: 3, Error: "read shop.orders for rule x: pq: relation does not exist (42P01)"}, "doctor"},
		"all gave up after they were retried": {ledger.JobStatus{Failed: 6, GaveUp: 3, LastGaveUp: 3}, "jobs history --outcome failed --job x"},
	} {
		test.job.JobExec, test.job.LastSlot, test.job.LastChecked, test.job.LastFailed = "x", new(time.Unix(0, 0)), 3, 3
		found := failing(&Report{Jobs: []ledger.JobStatus{test.job}}, 50)
		if len(found) != 1 || found[0].Remedy != test.want {
			t.Errorf("%s: %+v, want %s", name, found, test.want)
		}
	}
}

func TestAJobWhoseFailedRowsWereCancelledIsNotFailing(t *testing.T) {
	t.Parallel()
	for cancelled, want := range map[int64]int{0: 1, 1: 1, 2: 0, 3: 0} { // of 3; more than half is a finding
		job := ledger.JobStatus{JobExec: "x", LastSlot: new(time.Unix(0, 0)), LastChecked: 3, LastFailed: 3, LastSettled: cancelled}
		if found := failing(&Report{Jobs: []ledger.JobStatus{job}}, 50); len(found) != want {
			t.Errorf("%d rows cancelled: %+v", cancelled, found)
		}
	}
}

func TestAJobThatGaveUpAllItsFailedRowsIsOneFinding(t *testing.T) {
	t.Parallel()
	gone := ledger.JobStatus{JobExec: "gone", LastChecked: 3, LastFailed: 3, GaveUp: 3, LastGaveUp: 3, Error: "boom"}
	half := ledger.JobStatus{JobExec: "half", LastChecked: 3, LastFailed: 3, GaveUp: 1, LastGaveUp: 1, Error: "boom"}
	for name, test := range map[string]struct {
		threshold float64
		want      []string
	}{
		"told by gave-up":                 {0, []string{"gone", "half", "half"}},
		"gave-up is off by its threshold": {9, []string{"gone", "half"}},
		"gave-up tells one of them":       {2, []string{"gone", "half"}},
	} {
		r := &Report{Jobs: []ledger.JobStatus{gone, half}}
		var of []string
		for _, f := range append(gaveUp(r, test.threshold), failing(r, 50)...) {
			of = append(of, f.Job)
		}
		if !slices.Equal(of, test.want) {
			t.Errorf("%s: findings about %q, want %q", name, of, test.want)
		}
	}
}

// A job whose name contains the number of an order is a new job for each order.
func TestAFindingNamesSomeOfTenThousandJobs(t *testing.T) {
	t.Parallel()
	r := &Report{knows: func(string) bool { return false }}
	for i := range 10_000 {
		r.Jobs = append(r.Jobs, ledger.JobStatus{JobExec: fmt.Sprintf("order.%05d", i), Unserved: true})
	}
	found := unserved(r, 0)
	if len(found) != 1 || !strings.Contains(found[0].Text, "order.00019") || !strings.Contains(found[0].Text, " and 9980 more") || len(found[0].Text) > 4000 {
		t.Errorf("%.5000s", found)
	}
}

func TestAJobOfTheBinaryThatNothingHasRunYetNeedsARun(t *testing.T) {
	t.Parallel()
	r := &Report{knows: func(job string) bool { return job == "order.late" }}
	r.Jobs = []ledger.JobStatus{{JobExec: "order.late", Unserved: true}, {JobExec: "oder.late", Unserved: true}}
	found := unserved(r, 0)
	if len(found) != 2 || !strings.Contains(found[0].Text, "days had: oder.late. Run a binary") || found[0].Remedy != "jobs list --job oder.late" ||
		!strings.Contains(found[1].Text, "that the commands of this binary have") || !strings.Contains(found[1].Text, "days had: order.late.") || found[1].Remedy != "run --catch-up" {
		t.Errorf("%+v", found)
	}
}

func TestASlotThatWasLeftOpenWithoutRowsHasNoStrandedOnes(t *testing.T) {
	t.Parallel()
	r := &Report{State: State{Status: ledger.Status{Trouble: []ledger.Trouble{{Slot: time.Unix(0, 0), State: slots.StateOpen}}}}}
	found := stranded(r, 0)
	if len(found) != 1 || strings.Contains(found[0].Text, "stranded") || found[0].Remedy != "catch-up" {
		t.Errorf("%+v", found)
	}
}

func TestAMisspeltJobIsOneFinding(t *testing.T) {
	t.Parallel()
	hour := time.Unix(3600, 0)
	counts := []ledger.JobCount{{JobExec: "oder.late", Waiting: ledger.Count{N: 3}}}
	r := &Report{knows: func(job string) bool { return job == "order.late" }}
	r.Now = hour.Add(3 * time.Hour)
	r.Current = ledger.SlotRun{Slot: r.Now.Add(-2 * time.Hour)}
	r.Trouble = []ledger.Trouble{{Slot: hour, State: slots.StateOpen, Jobs: counts}}
	r.unopened = counts
	r.Jobs = []ledger.JobStatus{{JobExec: "oder.late", Unserved: true}}
	found := append(unserved(r, 0), append(stranded(r, 0), overdue(r, 0)...)...)
	if len(found) != 1 || !strings.Contains(found[0].Text, "days had: oder.late (6 due). Run a binary") {
		t.Errorf("%+v", found)
	}
	r.Trouble[0].Jobs = append(r.Trouble[0].Jobs, ledger.JobCount{JobExec: "order.late", Waiting: ledger.Count{N: 2}})
	if found := stranded(r, 0); len(found) != 1 || !strings.HasPrefix(found[0].Text, "2 rows are stranded") || found[0].Remedy != "catch-up" {
		t.Errorf("beside rows of another job: %+v", found)
	}
}

func TestRowsOfMissedSlotsAreOneFinding(t *testing.T) {
	t.Parallel()
	hour := time.Unix(3600, 0)
	trouble := []ledger.Trouble{{Slot: hour, State: slots.StateMissed, Jobs: []ledger.JobCount{{JobExec: "order.late", Waiting: ledger.Count{N: 3}}}}}
	for name, test := range map[string]struct {
		threshold float64
		want      string
	}{"missed": {0, "1 slot was missed since 1970-01-01T01:00:00Z, 3 h ago: "}, "missed is off by its threshold": {9, "3 rows have been due for more than "}} {
		r := &Report{State: State{Status: ledger.Status{Now: hour.Add(3 * time.Hour), Trouble: trouble}}, knows: func(string) bool { return true }}
		if found := append(missed(r, test.threshold), overdue(r, 0)...); len(found) != 1 || !strings.HasPrefix(found[0].Text, test.want) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// The sentence at the end of an error says what to do.
func TestAFindingHasTheWholeError(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("the warehouse does not answer, ", 20) + "restart it"
	r := &Report{Jobs: []ledger.JobStatus{{JobExec: "order.late", LastChecked: 1, LastFailed: 1, GaveUp: 1, Error: long, GaveUpError: long}}}
	for _, found := range [][]Finding{failing(r, 50), gaveUp(r, 0)} { // in this order, so that both tell it
		if len(found) != 1 || !strings.Contains(found[0].Text, long) {
			t.Errorf("%+v", found)
		}
	}
	if found := gaveUp(r, 0); !strings.Contains(found[0].Text, "Mend the cause first") || strings.HasPrefix(found[0].Remedy, "jobs retry") {
		t.Errorf("%+v", found)
	}
}
