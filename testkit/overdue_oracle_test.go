package testkit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/testkit"
)

// oracleStep is a step as the naive oracle knows it.
type oracleStep struct {
	name         string
	first, every time.Duration // every 0: it fires once
	times        int
}

// occurrence is one of the times at which a step is due.
type occurrence struct {
	number int
	at     time.Time
}

// last returns the last occurrence for which a condition holds. It looks at all of them.
func (s oracleStep) last(since time.Time, holds func(at time.Time) bool) (last occurrence) {
	for n := 1; n <= max(s.times, 1); n++ {
		if at := since.Add(s.first + time.Duration(n-1)*s.every); holds(at) {
			last = occurrence{n, at}
		}
	}
	return last
}

// oracleRow is a row as the oracle knows it. Its key is not known to the oracle.
type oracleRow struct {
	since        time.Time
	about, done  bool
	starts       map[time.Time]map[string]int // what has fired, by since
	first        time.Time                    // occurrences before it fire only if they are allowed
	allowed      map[string]int
	holds, until time.Time // its spread: decided in slot holds
}

type oracle struct {
	policy rule.Overdue
	steps  []oracleStep
	rows   map[int]*oracleRow
	list   []string
}

// came says that a row comes to the rule.
func (o *oracle) came(id int, r *oracleRow, at time.Time) {
	floor := grid.Default.Floor(at)
	passed := func(is time.Time) bool { return is.Before(at) && !is.After(floor) }
	r.allowed, r.holds, r.until = map[string]int{}, time.Time{}, time.Time{}
	var latest occurrence
	var of string
	for _, s := range o.steps {
		last := s.last(r.since, passed)
		if last.number > 0 && !last.at.Before(latest.at) {
			latest, of = last, s.name
		}
		r.allowed[s.name] = last.number
	}
	switch o.policy.Policy {
	case rule.OverdueSkip:
		r.allowed = nil
	case rule.OverdueSpread:
		r.holds = floor.Add(grid.Default.Width())
		r.until = rule.Rule{Name: "case.open", Entity: "cases", Overdue: o.policy}.SlotFor(grid.Default, at, strconv.Itoa(id))
	case rule.OverdueFire:
	default:
		r.allowed = map[string]int{of: latest.number}
	}
	if r.first = floor.Add(time.Microsecond); floor.Equal(at) {
		r.first = floor
	}
}

// check fires the steps of all rows that are due in a slot.
func (o *oracle) check(slot time.Time) {
	for id, r := range o.rows {
		if !r.about || r.done || r.since.IsZero() {
			continue
		}
		var due []string
		late := false
		fired := map[string]int{}
		for _, s := range o.steps {
			last := s.last(r.since, func(at time.Time) bool { return !at.After(slot) })
			passed := last.at.Before(r.first)
			if last.number <= r.starts[r.since][s.name] || passed && r.allowed[s.name] != last.number {
				continue
			}
			late = late || passed
			due = append(due, fmt.Sprintf("%d %s#%d at %s", id, s.name, last.number, slot.Format(time.RFC3339)))
			fired[s.name] = last.number
		}
		if r.holds.Equal(slot) && !late {
			r.until = time.Time{}
		}
		if slot.Before(r.until) {
			continue
		}
		o.list = append(o.list, due...)
		if r.starts[r.since] == nil {
			r.starts[r.since] = map[string]int{}
		}
		for name, n := range fired {
			r.starts[r.since][name] = n
		}
	}
}

// Rows come in every way, their keys change, and a naive count tells which steps fire in which slot.
func TestWhatFiresForRowsThatComeLateIsThatOfANaiveCount(t *testing.T) {
	t.Parallel()
	operations := 150
	if os.Getenv("PRESCIENT_TEST_LONG") != "" {
		operations = 3000
	}
	for n, text := range []string{"", "fire", "last", "skip", "spread 5"} {
		if testing.Short() && text != "last" {
			continue
		}
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			compareWithOracle(t, rand.New(rand.NewPCG(uint64(n), 7)), text, operations)
		})
	}
}

func compareWithOracle(t *testing.T, rnd *rand.Rand, text string, operations int) {
	o := &oracle{rows: map[int]*oracleRow{}, steps: []oracleStep{
		{name: "zero"}, {"often", 5 * time.Hour, 7 * time.Hour, 4}, {"day", 24 * time.Hour, 0, 1}, {"end", 50*time.Hour + 7*time.Minute, 0, 1},
	}}
	file := `rules:
  - {name: case.open, table: public.cases, key: id, since: opened_at, done: closed_at is not null, where: about, payload: [uid],
     OVERDUE steps: [{after: 0s, event: zero}, {after: 5h, every: 7h, times: 4, event: often}, {after: 24h, event: day}, {after: 3007m, event: end}]}`
	if text == "" {
		file = strings.Replace(file, "OVERDUE", "", 1)
	} else {
		file = strings.Replace(file, "OVERDUE", "overdue: "+text+",", 1)
		if err := o.policy.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec(`create table cases (id bigint primary key, uid int not null, about boolean not null default true,
		opened_at timestamptz, closed_at timestamptz)`)
	kit.Rules(rulesFile(t, file))
	checked := start
	until := func(at time.Time) {
		kit.RunUntil(at)
		for slot := grid.Default.Next(checked); !slot.After(at); slot = grid.Default.Next(slot) {
			o.check(slot)
			checked = slot
		}
	}
	past := func(now time.Time) time.Time {
		return now.Add(-time.Duration(rnd.Int64N(int64(4 * 24 * time.Hour)))).Truncate([]time.Duration{time.Microsecond, 15 * time.Minute}[rnd.IntN(2)])
	}
	keys := map[int]int{} // by uid
	for range operations {
		until(kit.Now().Add(time.Duration(rnd.Int64N(int64(90 * time.Minute)))).Truncate([]time.Duration{time.Microsecond, 15 * time.Minute}[rnd.IntN(2)]))
		now := kit.Now()
		uid := rnd.IntN(len(keys) + 1)
		r := o.rows[uid]
		switch what := rnd.IntN(10); {
		case r == nil:
			since, about := past(now), rnd.IntN(4) > 0
			keys[uid] = uid
			r = &oracleRow{since: since, about: about, starts: map[time.Time]map[string]int{}}
			o.rows[uid] = r
			kit.DB.MustExec("insert into cases (id, uid, opened_at, about) values ($1, $2, $3, $4)", uid, uid, since, about)
			o.came(keys[uid], r, now)
		case what < 3 && uid%3 == 0:
			r.about = !r.about
			kit.DB.MustExec("update cases set about = $1 where uid = $2", r.about, uid)
			if r.about {
				o.came(keys[uid], r, now)
			}
		case what < 3 && uid%3 == 1 && o.policy.Policy != rule.OverdueSpread && r.about:
			r.done = !r.done
			kit.DB.MustExec("update cases set closed_at = case when $1 then $2::timestamptz end where uid = $3", r.done, now, uid)
			if !r.done {
				r.first, r.allowed = grid.Default.Floor(now).Add(time.Microsecond), nil
			}
		case what < 4 && uid%3 == 2 && !r.done:
			r.since = past(now)
			kit.DB.MustExec("update cases set opened_at = $1 where uid = $2", r.since, uid)
			o.came(keys[uid], r, now)
		case what < 8 && o.policy.Policy != rule.OverdueSpread: // the spread is by the key
			keys[uid] += 1000
			kit.DB.MustExec("update cases set id = $1 where uid = $2", keys[uid], uid)
		}
	}
	until(kit.Now().Add(5 * 24 * time.Hour))
	var got []string
	for _, e := range kit.Events() {
		var data struct {
			Step    string
			Number  int
			Payload struct{ UID int }
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s#%d at %s", data.Payload.UID, data.Step, max(data.Number, 1), e.PublishedAt.UTC().Format(time.RFC3339)))
	}
	slices.Sort(got)
	slices.Sort(o.list)
	if diff := cmp.Diff(o.list, got); diff != "" || len(got) < operations/10 {
		t.Errorf("%d events (-oracle +engine):\n%.4000s", len(got), diff)
	}
}
