package pages

import (
	"fmt"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

func TestWhatIsStrandedLeadsToCatchUpOnlyWhereThatTakesIt(t *testing.T) {
	t.Parallel()
	for remedy, want := range map[string]string{
		"prescient catch-up":                        "/do/catch-up",
		"prescient --store a catch-up":              "/do/catch-up",
		"prescient jobs list --job misspelt":        "/jobs",
		"prescient run --slot 2030-03-01T12:00:00Z": "/ledger",
	} {
		v := newOverviewPage(board.Overview{Status: view.Status{Findings: []health.Finding{{Condition: "stranded", Remedy: remedy}}}})
		if got := v.Findings[0].Do; got == nil || got.Path != want {
			t.Errorf("%s leads to %+v, want %s", remedy, got, want)
		}
	}
}

func TestFailingChecksLeadToTheirRows(t *testing.T) {
	t.Parallel()
	for remedy, want := range map[string]string{
		"prescient jobs list --job 'a b'":                               "/waiting?job=a+b",
		"prescient jobs history --outcome failed --job 'a b'":           "/ended?job=a+b&outcome=failed",
		"prescient --store x jobs history --outcome failed --job 'a b'": "/ended?job=a+b&outcome=failed",
	} {
		v := newOverviewPage(board.Overview{Status: view.Status{Findings: []health.Finding{{Condition: "failing", Remedy: remedy, Job: "a b"}}}})
		if got := v.Findings[0].Do; got == nil || got.Path != want {
			t.Errorf("%s leads to %+v, want %s", remedy, got, want)
		}
	}
}

// A job whose name has the number of an order in it is one more job with each order.
func TestTheFirstPageListsSomeOfTenThousandJobs(t *testing.T) {
	t.Parallel()
	var o board.Overview
	for i := range 10_000 {
		o.Jobs = append(o.Jobs, ledger.JobStatus{JobExec: fmt.Sprintf("order.%05d", i)})
	}
	if v := newOverviewPage(o); len(v.Listed.Jobs) != shownJobs || v.MoreJobs != 10_000-shownJobs {
		t.Errorf("%d jobs and %d more", len(v.Listed.Jobs), v.MoreJobs)
	}
}

func TestTheFiguresCountTheSlotsBeyondThoseListed(t *testing.T) {
	t.Parallel()
	many := make([]view.Trouble, 1000)
	v := newOverviewPage(board.Overview{Status: view.Status{Missed: many, MoreMissed: 2, LeftOpen: many, MoreOpen: 5}})
	got := map[string]string{}
	for _, f := range v.Figures {
		got[f.Name] = fmt.Sprint(f.Value)
	}
	if got["Stranded"] != "1,005" || got["Missed"] != "1,002" {
		t.Errorf("stranded %s, missed %s", got["Stranded"], got["Missed"])
	}
}
