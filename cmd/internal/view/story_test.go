package view_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/jobs/admin"
)

func TestARepetitionNamesThoseThatWereLeftOut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	e := admin.TimelineEntry{What: "next", Fired: []admin.Firing{
		{Step: "r", Number: 1, At: at}, {Step: "r", Number: 3, LeftOut: 1, At: at}, {Step: "r", Number: 7, LeftOut: 3, At: at},
	}}
	got := view.Sentence(e, at, "prescient")
	const when = " at 2026-03-11T09:00:00Z"
	want := ". Steps fired: r" + when + ", r#3" + when + " (#2 was left out), r#7" + when + " (#4 to #6 were left out)"
	if len(got) < len(want) || got[len(got)-len(want):] != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTheStoryOfARenamedRowNamesBothKeys(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	for want, e := range map[string]admin.TimelineEntry{
		"goes on from key 1, which its row had before, by shop":                                  {What: "renamed", Slot: slot, KeyBefore: "1", By: "shop"},
		"ended as cancelled in slot 2026-03-11T09:00:00Z by shop. The story goes on under key 2": {What: "cancelled", Slot: slot, KeyAfter: "2", By: "shop"},
	} {
		if got := view.Sentence(e, slot, "prescient"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
