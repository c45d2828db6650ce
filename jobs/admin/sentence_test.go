package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/admin"
)

func TestARepetitionCountsThoseThatWereLeftOut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	e := admin.TimelineEntry{What: "next", Fired: []admin.Firing{
		{Step: "r", Number: 1, At: at},
		{Step: "r", Number: 3, LeftOut: 1, FirstAt: at.AddDate(0, 0, -2), At: at},
		{Step: "r", Number: 7, LeftOut: 3, FirstAt: at.AddDate(0, 0, -6), At: at},
		{Step: "s", Number: 2, LeftOut: 1, At: at},
		{Step: "s", Number: 42000, LeftOut: 41999, At: at},
	}}
	got := e.Sentence(at, "prescient")
	const when = " at 2026-03-11T09:00:00Z"
	want := ". Steps fired: r" + when + ", r#3" + when + " (2 times, the first at 2026-03-09T09:00:00Z; 1 of the 2 times before it was left out), r#7" + when +
		" (4 times, the first at 2026-03-05T09:00:00Z; 3 of the 6 times before it were left out), s#2" + when + " (#1 was left out), s#42000" + when +
		" (#1 to #41999 were left out)"
	if len(got) < len(want) || got[len(got)-len(want):] != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// An entry has the first and the last time that a step has fired.
func TestARepetitionSaysHowOftenItHasFiredAndWhenFirst(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	e := admin.TimelineEntry{What: "next", Fired: []admin.Firing{
		{Step: "a", Number: 2, FirstAt: at.AddDate(0, 0, -1), At: at}, {Step: "b", Number: 4, FirstAt: at.AddDate(0, 0, -3), At: at},
	}}
	const when = " at 2026-03-11T09:00:00Z"
	want := ". Steps fired: a#2" + when + " (2 times, the first at 2026-03-10T09:00:00Z), b#4" + when +
		" (4 times, the first at 2026-03-08T09:00:00Z)"
	if got := e.Sentence(at, "prescient"); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTheEndOfARowOfARuleSaysWhatTheRuleFound(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	for found, want := range map[string]string{
		"":                             "",
		"open":                         ". Its row is not done, and no step is left",
		"outside":                      ". Its row is outside of the rule: where is not true, or since is null",
		"gone":                         ". Its row is gone",
		"the rule is removed":          ". The rule is removed",
		"done":                         ". Its row is done",
		"done at 2026-03-11T08:00:00Z": ". Its row is done at 2026-03-11T08:00:00Z",
	} {
		e := admin.TimelineEntry{What: "done", Ran: true, Slot: slot, Runner: "a", Found: found}
		want = "ended as done, checked in slot 2026-03-11T09:00:00Z by a, 0s after it, for 0s" + want
		if got := e.Sentence(slot, "prescient"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestTheTimelineOfARenamedRowNamesBothKeys(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	for want, e := range map[string]admin.TimelineEntry{
		"goes on from key 1, which its row had before, by shop":                                     {What: "renamed", Slot: slot, KeyBefore: "1", ByRole: "shop"},
		"ended as cancelled in slot 2026-03-11T09:00:00Z by shop. Its timeline goes on under key 2": {What: "cancelled", Slot: slot, KeyAfter: "2", ByRole: "shop"},
	} {
		if got := e.Sentence(slot, "prescient"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestACheckIsNamedByItsJobInsteadOfByItsSession(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 11, 9, 0, 0, 0, time.UTC)
	e := admin.TimelineEntry{What: "enqueued", At: slot, Slot: slot, RequestedFor: slot, ByRole: "cron", App: "prescient claim 17"}
	for actor, want := range map[string]string{
		"":                    "requested by a check, as soon as possible: slot 2026-03-11T09:00:00Z",
		"alice":               "requested by a check for alice, as soon as possible: slot 2026-03-11T09:00:00Z",
		"check of order.late": "requested by a check of order.late, as soon as possible: slot 2026-03-11T09:00:00Z",
	} {
		e.Actor = actor
		if got := e.Sentence(slot, "prescient"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestARequestSaysForWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 11, 9, 5, 0, 3e6, time.UTC)
	slot := at.Truncate(15 * time.Minute)
	for want, requested := range map[string]time.Time{
		", for 2026-03-11T10:00:00Z":                          slot.Add(time.Hour),
		", for 2026-03-11T09:05:00Z":                          at.Truncate(time.Second), // now
		", for 2026-03-11T09:04:59Z, which had passed":        at.Truncate(time.Second).Add(-time.Second),
		", for 2026-03-11T08:00:00.000001Z, which had passed": slot.Add(time.Microsecond - time.Hour),
		", as soon as possible":                               at,
		"":                                                    {},
	} {
		e := admin.TimelineEntry{What: "recorded", At: at, Slot: slot, RequestedFor: requested, ByRole: "shop"}
		text := "requested again by shop" + want + ", while due in slot 2026-03-11T09:00:00Z: recorded until that check has ended"
		if got := e.Sentence(at, "prescient"); got != text {
			t.Errorf("%s\nwant %s", got, text)
		}
		e.What = "enqueued"
		text = "requested by shop" + want + ": slot 2026-03-11T09:00:00Z"
		if got := e.Sentence(at, "prescient"); got != text {
			t.Errorf("%s\nwant %s", got, text)
		}
	}
}
