package grid_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/slots/grid"
)

const day = 24 * time.Hour

func TestZeroGridIsTheDefaultGrid(t *testing.T) {
	t.Parallel()
	made, err := grid.New(grid.DefaultWidth)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]grid.Grid{"zero": {}, "default": grid.Default, "made": made} {
		if g != grid.Default || g.Width() != 15*time.Minute || g.String() != "15m0s" {
			t.Errorf("%s: width %s, equal to Default: %t", name, g, g == grid.Default)
		}
	}
}

func TestEveryWholeDivisorOfADayIsAWidth(t *testing.T) {
	t.Parallel()
	if n := len(grids(t)); n != 96 {
		t.Errorf("%d widths, 86400 has 96 divisors", n)
	}
}

func TestAWidthThatDoesNotDivideADayIsRefused(t *testing.T) {
	t.Parallel()
	for _, width := range []time.Duration{
		0, -1, -15 * time.Minute, 1, time.Millisecond, time.Second - 1, time.Second + 1, 1500 * time.Millisecond,
		7 * time.Second, 7 * time.Minute, 11 * time.Minute, 5 * time.Hour, 7 * time.Hour, 16 * time.Hour, 23 * time.Hour,
		day - time.Second, day + 1, day + time.Second, 2 * day, 1 << 62,
	} {
		if g, err := grid.New(width); !errors.Is(err, grid.ErrWidth) || g != (grid.Grid{}) {
			t.Errorf("New(%s) = %v, %v", width, g, err)
		}
	}
}

func TestCeilKnowsThe15MinutesOfAnHour(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"2030-03-01T13:05:00Z":           "2030-03-01T13:15:00Z",
		"2030-03-01T13:15:00Z":           "2030-03-01T13:15:00Z",
		"2030-03-01T13:15:00.0000004Z":   "2030-03-01T13:15:00Z",
		"2030-03-01T13:15:00.0000005Z":   "2030-03-01T13:15:00Z", // a half goes to the even microsecond
		"2030-03-01T13:15:00.0000006Z":   "2030-03-01T13:30:00Z",
		"2030-03-01T13:15:00.000001Z":    "2030-03-01T13:30:00Z",
		"2030-03-01T13:14:59.9999996Z":   "2030-03-01T13:15:00Z",
		"2030-03-01T23:45:00.000001Z":    "2030-03-02T00:00:00Z",
		"2030-03-01T13:05:00+05:45":      "2030-03-01T07:30:00Z",
		"1970-01-01T00:00:00Z":           "1970-01-01T00:00:00Z",
		"9999-12-30T23:45:00.000001Z":    "9999-12-31T00:00:00Z",
		"9999-12-31T00:00:00.0000004Z":   "9999-12-31T00:00:00Z",
		"1969-12-31T23:59:59.999999Z":    "1970-01-01T00:00:00Z",
		"1969-12-31T23:45:00Z":           "1969-12-31T23:45:00Z",
		"2030-03-10T02:30:00-05:00":      "2030-03-10T07:30:00Z", // no such time on a clock in New York
		"2030-11-03T01:59:59.999-04:00":  "2030-11-03T06:00:00Z",
		"2030-11-03T01:59:59.9999-05:00": "2030-11-03T07:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, asked)
		if err != nil {
			t.Fatal(err)
		}
		if got := grid.Default.Ceil(at).Format(time.RFC3339Nano); got != want {
			t.Errorf("Ceil(%s) = %s, want %s", asked, got, want)
		}
	}
}

func TestRoundingHoldsOnEveryGrid(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, g := range grids(t) {
		for range 1000 {
			at := anInstant(random)
			if !holds(t, g, at) {
				return
			}
		}
		for _, at := range []time.Time{grid.Min(), grid.Max(), grid.Min().Add(-1), grid.Min().Add(1), grid.Max().Add(-1)} {
			holds(t, g, at)
		}
		for _, end := range []time.Time{grid.Min(), grid.Max()} {
			if !g.Contains(end) || !g.Ceil(end).Equal(end) || !g.Floor(end).Equal(end) {
				t.Errorf("%s: %s is no slot", g, end)
			}
		}
	}
}

func TestEveryMidnightUTCIsASlotOfEveryGrid(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, g := range grids(t) {
		for range 100 {
			midnight := grid.Min().AddDate(0, 0, random.IntN(365*8000))
			if !g.Contains(midnight) {
				t.Errorf("%s does not contain %s", g, midnight)
			}
		}
	}
}

func TestAddGoesThereAndBack(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for _, g := range grids(t) {
		for range 100 {
			slot, n := g.Floor(anInstant(random)), random.IntN(200000)-100000
			there := g.Add(slot, n)
			if !g.Contains(there) || there.Sub(slot) != time.Duration(n)*g.Width() || !g.Add(there, -n).Equal(slot) {
				t.Fatalf("%s: Add(%s, %d) = %s", g, slot, n, there)
			}
		}
	}
}

func TestBetweenYieldsEverySlotOnceInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for _, g := range grids(t) {
		from, n := anInstant(random), random.IntN(20)
		first := g.Ceil(from)
		var want []time.Time
		for i := range n {
			want = append(want, g.Add(first, i))
		}
		to := g.Add(first, n)
		if diff := cmp.Diff(want, slices.Collect(g.Between(from, to))); diff != "" {
			t.Errorf("%s: Between(%s, %s):\n%s", g, from, to, diff)
		}
		// The last instant before a slot excludes the slot; the first instant after it includes it.
		if got := len(slices.Collect(g.Between(from, to.Add(time.Microsecond)))); got != n+1 {
			t.Errorf("%s: %d slots up to just after the %d-th", g, got, n+1)
		}
	}
}

func TestBetweenYieldsNothingBackwardsAndStopsWhenTold(t *testing.T) {
	t.Parallel()
	at := grid.Max()
	for range grid.Default.Between(at, at.Add(-day)) {
		t.Error("a slot between an instant and an earlier one")
	}
	for range grid.Default.Between(at, at) {
		t.Error("a slot between an instant and itself")
	}
	n := 0
	for range grid.Default.Between(grid.Min(), grid.Max()) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d slots", n)
	}
}

func TestMicroIsTheNearestMicrosecond(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	for range 100_000 {
		at := anInstant(random)
		micro := grid.RoundMicro(at)
		if d := micro.Sub(at).Abs(); d > 500 || micro.Nanosecond()%1000 != 0 || !grid.RoundMicro(micro).Equal(micro) {
			t.Fatalf("Micro(%s) = %s", at.Format(time.RFC3339Nano), micro.Format(time.RFC3339Nano))
		}
	}
}

func FuzzRounding(f *testing.F) {
	f.Add(int64(0), int64(0), int64(900))
	f.Add(int64(-1), int64(999_999_999), int64(1))
	f.Add(grid.Max().Unix(), int64(500), int64(86400))
	f.Add(int64(1), int64(999_999_500), int64(60))
	f.Fuzz(func(t *testing.T, seconds, nanos, width int64) {
		g, err := grid.New(time.Duration(width%100_000) * time.Second)
		if err != nil {
			t.Skip("no width")
		}
		holds(t, g, time.Unix(seconds%(1<<38), nanos%int64(time.Second)))
	})
}

// holds tests every law of rounding for one instant.
func holds(t *testing.T, g grid.Grid, at time.Time) bool {
	t.Helper()
	asked := grid.RoundMicro(at)
	ceil, floor, next, previous := g.Ceil(at), g.Floor(at), g.Next(at), g.Previous(at)
	width := g.Width()
	on := g.Contains(asked)
	for law, ok := range map[string]bool{
		"ceil is a slot":                   g.Contains(ceil) && ceil.Unix()%int64(width/time.Second) == 0,
		"floor is a slot":                  g.Contains(floor),
		"next is a slot":                   g.Contains(next),
		"previous is a slot":               g.Contains(previous),
		"0 <= ceil - asked < width":        !ceil.Before(asked) && ceil.Sub(asked) < width,
		"0 <= asked - floor < width":       !floor.After(asked) && asked.Sub(floor) < width,
		"0 < next - asked <= width":        next.After(asked) && next.Sub(asked) <= width,
		"0 < asked - previous <= width":    previous.Before(asked) && asked.Sub(previous) <= width,
		"on the grid: ceil = floor":        on == ceil.Equal(floor),
		"off the grid: next = ceil":        on != next.Equal(ceil),
		"off the grid: previous = floor":   on != previous.Equal(floor),
		"next = floor + 1":                 next.Equal(g.Add(floor, 1)),
		"previous = ceil - 1":              previous.Equal(g.Add(ceil, -1)),
		"ceil, floor of a slot stay":       g.Ceil(ceil).Equal(ceil) && g.Floor(floor).Equal(floor),
		"next and previous are each other": g.Previous(next).Equal(floor) && g.Next(previous).Equal(ceil),
		"UTC": ceil.Location() == time.UTC && floor.Location() == time.UTC && next.Location() == time.UTC &&
			previous.Location() == time.UTC && asked.Location() == time.UTC,
	} {
		if !ok {
			t.Errorf("width %s, %s: not so: %s (ceil %s, floor %s, next %s, previous %s)", g, at.Format(time.RFC3339Nano), law, ceil, floor, next, previous)
			return false
		}
	}
	return true
}

func grids(t *testing.T) []grid.Grid {
	t.Helper()
	var list []grid.Grid
	for width := time.Second; width <= day; width += time.Second {
		if day%width != 0 {
			continue
		}
		g, err := grid.New(width)
		if err != nil {
			t.Fatal(err)
		}
		if g.Width() != width {
			t.Errorf("New(%s).Width() = %s", width, g.Width())
		}
		list = append(list, g)
	}
	return list
}

// anInstant returns an instant from 70 years before grid.Min() to grid.Max(), in any zone. Many are
// close to a whole second, at any fraction of one, or at half a microsecond.
func anInstant(random *rand.Rand) time.Time {
	const before = 70 * 365 * 86400
	seconds := random.Int64N(grid.Max().Unix()+before) - before
	if random.IntN(2) == 0 {
		seconds -= seconds % 900 // near a slot
	}
	var nanos int64
	switch random.IntN(4) {
	case 0:
		nanos = random.Int64N(int64(time.Second))
	case 1:
		nanos = random.Int64N(1_000_000)*1000 + 500
	case 2:
		nanos = random.Int64N(4000) - 2000
	}
	zone := time.FixedZone("", random.IntN(27*3600)-12*3600)
	return time.Unix(seconds, nanos).In(zone)
}
