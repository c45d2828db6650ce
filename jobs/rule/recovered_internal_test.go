package rule

import (
	"testing"
	"time"
)

func TestWhatLetStepsFireIsOver(t *testing.T) {
	t.Parallel()
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	for name, test := range map[string]struct {
		starts []start
		seen   seen
		want   int // of the first start
	}{
		"open":                      {[]start{{since: first, fired: true}}, seen{there: true, about: true, counts: true, since: first}, 0},
		"done":                      {[]start{{since: first, fired: true}}, seen{there: true, about: true, counts: true, since: first, done: true}, 1},
		"done and told":             {[]start{{since: first, fired: true, told: true}}, seen{there: true, about: true, counts: true, since: first, done: true}, 0},
		"done, and no step fired":   {nil, seen{there: true, about: true, counts: true, since: first, done: true}, 0},
		"done and outside of where": {[]start{{since: first, fired: true}}, seen{there: true, counts: true, since: first, done: true}, 1},
		"outside of where":          {[]start{{since: first, fired: true}}, seen{there: true, counts: true, since: first}, 0},
		"gone":                      {[]start{{since: first, fired: true}}, seen{}, 0},
		"moved later":               {[]start{{since: first, fired: true}}, seen{there: true, about: true, counts: true, since: second}, 1},
		"moved, told and fired again": {
			[]start{{since: first, fired: true, told: true}, {since: second, fired: true}},
			seen{there: true, about: true, counts: true, since: second},
			0,
		},
		"moved earlier":       {[]start{{since: second, fired: true}}, seen{there: true, about: true, counts: true, since: first}, 1},
		"the clock has ended": {[]start{{since: first, fired: true}}, seen{there: true, about: true}, 1},
		"moved twice": {
			[]start{{since: second, fired: true}, {since: first, fired: true}}, seen{there: true, about: true, counts: true, since: time.Unix(3, 0)}, 2,
		},
	} {
		got := over(test.starts, test.seen)
		if len(got) != test.want || test.want == 2 && !got[0].Equal(first) {
			t.Errorf("%s: %v, want %d", name, got, test.want)
		}
	}
}

func TestARowIsWatchedFromItsFirstStepUntilItIsOver(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	for name, test := range map[string]struct {
		turn turn
		want bool
	}{
		"no step":          {turn{}, false},
		"a step fires":     {turn{due: []due{{}}}, true},
		"a step has fired": {turn{starts: []start{{since: now, fired: true}}}, true},
		"it was told":      {turn{starts: []start{{since: now, fired: true, told: true}}, due: []due{{}}}, false},
		"of another start": {turn{starts: []start{{since: time.Unix(2, 0), fired: true}}}, false},
	} {
		test.turn.seen.since = now
		if got := test.turn.watched(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
