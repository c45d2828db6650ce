package oracle_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
)

// The instants of steps are those that the oracle finds, for random delays, calendars, zones and starts of the clock.
// No database takes part. With PRESCIENT_TEST_LONG, it compares some 300,000 instants.
func TestStepsComeAtTheInstantsOfTheOracle(t *testing.T) {
	t.Parallel()
	files := 20
	if os.Getenv("PRESCIENT_TEST_LONG") != "" {
		files = 1000
	}
	for seed := range files {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			compareInstants(t, uint64(seed))
		})
	}
}

func compareInstants(t *testing.T, seed uint64) {
	t.Helper()
	r := &random{Rand: rand.New(rand.NewPCG(seed, 41)), days: 150}
	r.start = time.Date(2026, time.January, 20+r.IntN(330), 0, 0, 0, 0, time.UTC)
	calendars := r.calendars()
	var rules []*theRule
	for i := range 6 {
		rules = append(rules, r.rule(fmt.Sprintf("r%d", i+1), calendars))
	}
	text := file(calendars, rules)
	parsed, err := rule.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i, of := range rules {
		timing, err := rule.NewTiming(parsed.Rules[i], parsed.Calendars)
		if err != nil {
			t.Fatal(err)
		}
		for n, s := range of.steps {
			for range 10 {
				since, data := r.time(), length{}
				held := make([]expr.Held, len(of.steps))
				if s.data != nil {
					data = length{months: r.IntN(3), days: r.IntN(40), time: time.Duration(r.IntN(3000)) * time.Minute, ok: true}
					held[n].After = &expr.Length{Months: data.months, Days: data.days, Time: data.time}
				}
				number := 1
				if s.repeats() {
					number += r.IntN(max(s.times, 4))
				}
				every, most, h := r.repetitions(s)
				held[n].Every, held[n].Times = h.Every, h.Times
				pauses, list := r.pauses(since)
				own, clocks := s, of.zone
				if s.region != nil {
					own = s.with(pick(r, calendars).name)
					held[n].Calendar = &own.calendar.name
				}
				if of.place != nil {
					name := pick(r, zones)
					clocks, held[0].Timezone = zone(name), &name
				}
				want := own.nth(since, data, every, number, clocks, pauses)
				got, err := timing.For(held, list).Nth(n, since, number)
				if err == nil && (number > most) != (got.Number == 0) || err == nil && got.Number > 0 && !got.At.Equal(want) {
					t.Errorf("%s (%s), number %d: %s of %s, want %s. The clocks of the rule are %s\n%s\n%s\n%v", s.name, stamp(since), number,
						stamp(got.At), shows(since, clocks), stamp(want), clocks, s.text(of.name), calendarText(own), pauses)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// repetitions returns random values for a step that the data of a row hold, in both forms: the delay between its times,
// which is nil if it fires once, and their number.
func (r *random) repetitions(s *step) (every *delay, most int, h expr.Held) {
	own := *s
	if s.pace != nil {
		l := length{months: r.IntN(3), days: r.IntN(40) - 20, time: time.Duration(r.IntN(3000)) * time.Minute, ok: r.chance(80)}
		own.pace = &expression{length: func(*tables, row) length { return l }}
		if l.ok {
			h.Every = &expr.Length{Months: l.months, Days: l.days, Time: l.time}
		}
	}
	if s.count != nil {
		n, ok := r.IntN(8)-1, r.chance(80)
		own.count = &expression{count: func(*tables, row) (int, bool) { return n, ok }}
		if ok {
			times := int64(n)
			h.Times = &times
		}
	}
	every = own.paceOf(nil, nil)
	if most = own.most(nil, nil); most < 0 {
		most = math.MaxInt32
	}
	if every == nil {
		most = min(most, 1)
	}
	return every, most, h
}

// pauses returns random pauses near an instant, the earliest first, in both forms.
func (r *random) pauses(since time.Time) (pauses []span, list []rule.Pause) {
	at := since.Add(-day)
	for range r.IntN(4) {
		from := at.Add(time.Duration(r.IntN(60*48)) * time.Minute)
		at = from.Add(time.Duration(1+r.IntN(pick(r, []int{60, 60 * 24, 60 * 24 * 7}))) * time.Minute)
		pauses, list = append(pauses, span{from, at}), append(list, rule.Pause{From: from.UTC(), To: at.UTC()})
	}
	return pauses, list
}

func calendarText(s *step) string {
	if s.calendar == nil {
		return ""
	}
	return s.calendar.text
}
