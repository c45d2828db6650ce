package main

import (
	"strings"
	"testing"
	"time"
)

func TestMovesThatAreKilledLoseNothing(t *testing.T) {
	t.Parallel()
	broken, err := run(t.Context(), options{seed: 2, moved: 8, hasty: true, recovery: time.Minute})
	if broken > 0 || err != nil {
		t.Fatalf("%d violations, %v", broken, err)
	}
}

func TestWhatMovesBreakIsFound(t *testing.T) {
	t.Parallel()
	now := time.Now()
	row := ended{JobExec: txJob, EntityKey: "k", CheckCount: 1, Outcome: "done"}
	start := started{job: txJob, key: "k", slot: now, at: now}
	early := started{job: txJob, key: "k", slot: now.Add(time.Second), at: now}
	for name, test := range map[string]struct {
		rows    []ended
		starts  []started
		effects []keyed
		want    string // empty: nothing
	}{
		"a check":                         {[]ended{row}, []started{start}, []keyed{{Key: "k", N: 1}}, ""},
		"a check in each store":           {[]ended{row, row}, []started{start, start}, []keyed{{Key: "k", N: 2}}, ""},
		"a check that is repeated":        {[]ended{row}, []started{start, start}, []keyed{{Key: "k", N: 1}}, ""},
		"a check that did not start":      {[]ended{row}, nil, []keyed{{Key: "k", N: 1}}, "were recorded, and 0 started"},
		"an effect in each store":         {[]ended{row}, []started{start, start}, []keyed{{Key: "k", N: 2}}, "had 2 effects"},
		"an effect that was lost":         {[]ended{row}, []started{start}, nil, "had 0 effects"},
		"an effect before its slot":       {[]ended{row}, []started{start}, []keyed{{Key: "k", N: 1, Early: true}}, "before its slot"},
		"a start before its slot":         {[]ended{row}, []started{early}, []keyed{{Key: "k", N: 1}}, "started 1s before its slot"},
		"a start of a row that never was": {nil, []started{start}, nil, "no history has it"},
	} {
		rows := map[string][]ended{}
		for _, r := range test.rows {
			rows[r.JobExec+" "+r.EntityKey] = append(rows[r.JobExec+" "+r.EntityKey], r)
		}
		list := found(func(broken func(string, ...any)) { checkMoved(rows, test.starts, test.effects, broken) })
		got := strings.Join(list, "; ")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}
