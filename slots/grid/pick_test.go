package grid_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asked describes a check that is to be placed.
type asked struct {
	at, earliest time.Time
	within       time.Duration
	key          string
}

func (a asked) place(g grid.Grid) time.Time {
	return g.PickSlot(a.at, a.within, a.earliest, grid.Hash(a.key))
}

// anyAsked returns a check from 1970 to 2200: windows of every size, on slots and off, and clocks
// before, in and after them.
func anyAsked(random *rand.Rand, g grid.Grid) asked {
	a := asked{
		at:  time.Unix(random.Int64N(230*365*86400), random.Int64N(int64(time.Second))).UTC(),
		key: fmt.Sprint("order\x1f", random.IntN(1000)),
	}
	switch random.IntN(3) {
	case 0:
		a.at = g.Floor(a.at)
	case 1:
		a.at = g.Floor(a.at).Add(time.Duration(random.IntN(5)-2) * time.Microsecond)
	}
	a.within = time.Duration(random.IntN(4)) * g.Width()
	if random.IntN(2) == 0 {
		a.within = time.Duration(random.IntN(366*86400)) * time.Second
	}
	a.within = min(a.within, 366*day)
	around := g.Width() + a.within
	a.earliest = g.Ceil(a.at.Add(time.Duration(random.Int64N(int64(3*around))) - around))
	if random.IntN(3) == 0 {
		a.earliest = grid.Min()
	}
	return a
}

// The window is left only if its slots have begun.
func TestAPlaceIsASlotOfTheWindowUnlessThatHasPassed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(21, 22))
	for _, g := range grids(t) {
		for range 2000 {
			a := anyAsked(random, g)
			slot, end := a.place(g), grid.RoundMicro(a.at).Add(a.within)
			first := slices.MaxFunc([]time.Time{g.Ceil(a.at), a.earliest}, time.Time.Compare)
			switch {
			case !g.Contains(slot) || slot.Before(a.at.Truncate(time.Microsecond)) || slot.Before(a.earliest):
				t.Fatalf("width %s, %+v: slot %s", g, a, slot)
			case !slot.Equal(first) && !slot.Before(end):
				t.Fatalf("width %s, %+v: slot %s is not in the window, nor is it %s", g, a, slot, first)
			case !slot.Equal(a.place(g)):
				t.Fatalf("width %s, %+v: another slot than before", g, a)
			}
			before := a
			before.earliest = grid.Min()
			if as := before.place(g); !as.Before(a.earliest) && !slot.Equal(as) {
				t.Fatalf("width %s, %+v: slot %s, and %s before others had begun", g, a, slot, as)
			}
		}
	}
}

func TestTheWindowEndsBeforeItsEnd(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse("15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return at.AddDate(2030, 0, 0)
	}
	for name, test := range map[string]struct {
		at       string
		within   time.Duration
		earliest string
		want     []string
	}{
		"an hour from a slot on":               {"09:00:00", time.Hour, "00:00:00", []string{"09:00", "09:15", "09:30", "09:45"}},
		"an hour from between two":             {"09:05:00", time.Hour, "00:00:00", []string{"09:15", "09:30", "09:45", "10:00"}},
		"a second more":                        {"09:00:00", time.Hour + time.Second, "00:00:00", []string{"09:00", "09:15", "09:30", "09:45", "10:00"}},
		"the width from a slot on":             {"09:00:00", 15 * time.Minute, "00:00:00", []string{"09:00"}},
		"the width from between two":           {"09:05:00", 15 * time.Minute, "00:00:00", []string{"09:15"}},
		"too short to reach a slot":            {"09:05:00", 5 * time.Minute, "00:00:00", []string{"09:15"}},
		"none":                                 {"09:05:00", 0, "00:00:00", []string{"09:15"}},
		"some have begun":                      {"09:00:00", time.Hour, "09:30:00", []string{"09:30", "09:45"}},
		"all but the last have begun":          {"09:00:00", time.Hour, "09:45:00", []string{"09:45"}},
		"all have begun":                       {"09:00:00", time.Hour, "10:00:00", []string{"10:00"}},
		"all have long begun":                  {"09:00:00", time.Hour, "15:00:00", []string{"15:00"}},
		"too short, and the slot has begun":    {"09:05:00", time.Minute, "09:30:00", []string{"09:30"}},
		"one before midnight and one after it": {"23:45:00", 30 * time.Minute, "00:00:00", []string{"00:00", "23:45"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := map[string]bool{}
			for i := range 1000 {
				slot := asked{at(test.at), at(test.earliest), test.within, fmt.Sprint(i)}.place(grid.Default)
				found[slot.Format("15:04")] = true
			}
			var got []string
			for slot := range found {
				got = append(got, slot)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The keys are consecutive, as numbers of orders are. A slot deviates from the mean by chance
// alone, and the keys are always the same, so five standard deviations never occur.
func TestManyKeysAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, time.March, 1, 9, 0, 0, 0, time.UTC)
	for _, slots := range []int{2, 3, 4, 7, 24, 96, 365} {
		for _, begun := range []int{0, 1, slots / 2} {
			const keys = 200_000
			left := slots - begun
			counts := map[time.Time]int{}
			for i := range keys {
				a := asked{at, grid.Default.Add(at, begun), time.Duration(slots) * 15 * time.Minute, fmt.Sprint("order.unshipped\x1forder\x1f", i, "\x1f")}
				counts[a.place(grid.Default)]++
			}
			mean := keys / left
			for slot, n := range counts {
				if far := n - mean; far*far > 25*mean+100 {
					t.Errorf("%d slots of which %d have begun: %d in %s, the mean is %d", slots, begun, n, slot.Format("15:04"), mean)
				}
			}
			if len(counts) != left {
				t.Errorf("%d slots of which %d have begun: %d are used", slots, begun, len(counts))
			}
		}
	}
}

// The time zone of the session has summer time, which must not matter.
func TestTheDatabasePlacesAsTheGridDoes(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Param("timezone", "America/New_York"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	random := rand.New(rand.NewPCG(23, 24))
	for _, g := range grids(t) {
		const n = 1000
		ats, withins, earliests := make([]string, n), make([]int64, n), make([]string, n)
		keys, slots := make([]string, n), make([]int64, n)
		for i := range n {
			a := anyAsked(random, g)
			ats[i], earliests[i] = a.at.Format(time.RFC3339Nano), a.earliest.Format(time.RFC3339Nano)
			withins[i], keys[i], slots[i] = int64(a.within/time.Second), a.key, a.place(g).Unix()
		}
		const query = `
			select format('%s within %s, from %s on, %s', at, within, earliest, key), extract(epoch from placed)::bigint
			from (
				select *, prescient.pick_slot(first, at, seconds, earliest, $7, hash) as placed
				from (
					select
						*, prescient.slot_ceil(at, $7) as first, prescient.window_hash(key) as hash,
						prescient.within_seconds(within * interval '1 second') as seconds
					from unnest($1::timestamptz[], $2::integer[], $3::timestamptz[], $4::text[], $5::bigint[]) as g (at, within, earliest, key, slot)
					offset 0
				) as found
			) as given
			where extract(epoch from placed) <> slot or placed is null or prescient.slot_ceil(placed, $6::interval) <> placed
			limit 10`
		width := fmt.Sprint(int64(g.Width() / time.Second))
		args := []any{pq.Array(ats), pq.Array(withins), pq.Array(earliests), pq.Array(keys), pq.Array(slots), width, width}
		_, err := pg.Collect(t.Context(), db, query, args, func(row *sql.Rows, text *string) error {
			var slot int64
			err := row.Scan(text, &slot)
			t.Errorf("width %s: %s is in %s in the database", g, *text, time.Unix(slot, 0).UTC())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
