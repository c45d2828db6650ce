package rule

import (
	"testing"
	"time"
)

func TestWhatLetStepsFireIsOver(t *testing.T) {
	t.Parallel()
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	for name, test := range map[string]struct {
		starts []Start
		row    Row
		want   int // of the first start
	}{
		"open":                      {[]Start{{Since: first, Fired: true}}, Row{There: true, About: true, Counts: true, Since: first}, 0},
		"done":                      {[]Start{{Since: first, Fired: true}}, Row{There: true, About: true, Counts: true, Since: first, Done: true}, 1},
		"done and told":             {[]Start{{Since: first, Fired: true, Told: true}}, Row{There: true, About: true, Counts: true, Since: first, Done: true}, 0},
		"done, and no step fired":   {nil, Row{There: true, About: true, Counts: true, Since: first, Done: true}, 0},
		"done and outside of where": {[]Start{{Since: first, Fired: true}}, Row{There: true, Counts: true, Since: first, Done: true}, 1},
		"outside of where":          {[]Start{{Since: first, Fired: true}}, Row{There: true, Counts: true, Since: first}, 0},
		"gone":                      {[]Start{{Since: first, Fired: true}}, Row{}, 0},
		"moved later":               {[]Start{{Since: first, Fired: true}}, Row{There: true, About: true, Counts: true, Since: second}, 1},
		"moved, told and fired again": {
			[]Start{{Since: first, Fired: true, Told: true}, {Since: second, Fired: true}},
			Row{There: true, About: true, Counts: true, Since: second},
			0,
		},
		"moved earlier":       {[]Start{{Since: second, Fired: true}}, Row{There: true, About: true, Counts: true, Since: first}, 1},
		"the clock has ended": {[]Start{{Since: first, Fired: true}}, Row{There: true, About: true}, 1},
		"moved twice": {
			[]Start{{Since: second, Fired: true}, {Since: first, Fired: true}}, Row{There: true, About: true, Counts: true, Since: time.Unix(3, 0)}, 2,
		},
	} {
		got := over(test.starts, test.row)
		if len(got) != test.want || test.want == 2 && !got[0].Equal(first) {
			t.Errorf("%s: %v, want %d", name, got, test.want)
		}
	}
}

func TestARowIsWatchedFromItsFirstStepUntilItIsOver(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	fired := []Start{{Since: now, Fired: true}}
	for name, test := range map[string]struct {
		starts []Start
		fires  bool
		want   bool
	}{
		"no step":          {nil, false, false},
		"a step fires":     {nil, true, true},
		"a step has fired": {fired, false, true},
		"it was told":      {[]Start{{Since: now, Fired: true, Told: true}}, true, false},
		"of another start": {[]Start{{Since: time.Unix(2, 0), Fired: true}}, false, false},
	} {
		if got := watched(test.starts, now, test.fires); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
