package slots

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// outcome is what became of a row, to be recorded.
type outcome struct {
	id       int64
	page     int // that the row came with
	shard    *shard
	lane     *lane
	verdict  *jobs.Verdict // outcomes are sorted, and so are small
	ran      bool
	lateness time.Duration
	duration time.Duration
}

// tally counts what was recorded.
type tally struct {
	finished, rescheduled, failed, yielded int64
}

func (t tally) checked() int64 { return t.finished + t.rescheduled + t.failed }

// What is kept of a check's times, in history: with more, no two rows would be alike. See jobs.Ended.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// outcome returns what becomes of a row of a flight that took a while. The run time of a batch is shared by its rows.
func (f *flight) outcome(i int, v *jobs.Verdict, took time.Duration) outcome {
	if len(f.rows) == 1 {
		took = took.Round(durationUnit)
	}
	return outcome{
		id: f.rows[i].ID, page: f.page, shard: f.shards[i], lane: f.lane, verdict: v, ran: true,
		lateness: f.rows[i].Lateness.Truncate(latenessUnit), duration: (took / time.Duration(len(f.rows))).Truncate(time.Microsecond),
	}
}

// minAlike is how many rows make a statement of their own worth while, unless they are all there are.
const minAlike = 50

// compareShard is the order in which rows are recorded: that of the slot index.
func compareShard(a, b outcome) int {
	return cmp.Or(cmp.Compare(a.shard.shard, b.shard.shard), cmp.Compare(a.id, b.id))
}

func comparePage(a, b outcome) int { return cmp.Or(cmp.Compare(a.page, b.page), compareShard(a, b)) }

// mark is in what rows are alike.
type mark struct {
	outcome            jobs.Outcome
	move               jobs.Move
	next               time.Time
	ran                bool
	lateness, duration time.Duration
}

// mark returns the mark of an outcome; ok is false when it has what no other row has.
func (o *outcome) mark() (m mark, ok bool) {
	m = mark{o.verdict.Outcome, o.verdict.Move, o.verdict.Next, o.ran, o.lateness, o.duration}
	if m.outcome == "" {
		m.lateness = 0 // is not kept of a row that moves
	}
	return m, o.verdict.Error == "" && o.verdict.Payload == nil
}

// alike groups outcomes that differ in nothing but their row; the rest is what differs. Each is in the order of what it
// was given.
func alike(outcomes []outcome) (groups [][]outcome, rest []outcome) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	first, ok := outcomes[0].mark()
	if ok && !slices.ContainsFunc(outcomes, func(o outcome) bool { m, ok := o.mark(); return m != first || !ok }) {
		return [][]outcome{outcomes}, nil
	}
	marked := map[mark][]outcome{}
	for _, o := range outcomes {
		if m, ok := o.mark(); ok {
			marked[m] = append(marked[m], o)
		} else {
			rest = append(rest, o)
		}
	}
	for _, group := range marked {
		if len(group) < minAlike {
			rest = append(rest, group...)
		} else {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(rest, compareShard)
	return groups, rest
}

// part is what there is of one shard.
type part struct {
	shard    *shard
	outcomes []outcome
	ids      []int64
}

// split divides outcomes, in the order of their shards, by shard.
func split(outcomes []outcome) []part {
	var parts []part
	for len(outcomes) > 0 {
		p := part{shard: outcomes[0].shard}
		n := slices.IndexFunc(outcomes, func(o outcome) bool { return o.shard != p.shard })
		if n < 0 {
			n = len(outcomes)
		}
		p.outcomes, outcomes = outcomes[:n:n], outcomes[n:]
		p.ids = make([]int64, n)
		for i := range p.ids {
			p.ids[i] = p.outcomes[i].id
		}
		parts = append(parts, p)
	}
	return parts
}

func (t tally) plus(u tally) tally {
	return tally{t.finished + u.finished, t.rescheduled + u.rescheduled, t.failed + u.failed, t.yielded + u.yielded}
}

// expected is the tally of outcomes when all their rows are still in the slot.
func expected(outcomes []outcome) tally {
	var n tally
	for _, o := range outcomes {
		n.add(o, 1)
	}
	return n
}

// tallies are the counts of what was recorded, by shard.
type tallies map[*shard]tally

func (n tallies) add(sh *shard, o outcome, rows int64) {
	t := n[sh]
	t.add(o, rows)
	n[sh] = t
}

// shards returns the shards in their order, in which everybody locks their leases.
func (n tallies) shards() []*shard {
	return slices.SortedFunc(maps.Keys(n), func(a, b *shard) int { return cmp.Compare(a.shard, b.shard) })
}

func (n tallies) total() tally {
	var sum tally
	for _, t := range n {
		sum = sum.plus(t)
	}
	return sum
}

// add counts rows with an outcome.
func (t *tally) add(o outcome, rows int64) {
	switch {
	case o.verdict.Outcome == jobs.Failed || o.verdict.Move == jobs.MoveRetry:
		t.failed += rows
	case o.verdict.Outcome != "":
		t.finished += rows
	default:
		t.rescheduled += rows
	}
}
