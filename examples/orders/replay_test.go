package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// expected computes alerts.csv from the text of a file by plain arithmetic, in nanoseconds since
// the Unix epoch. It expects the columns order_id, placed_at, shipped_at.
func expected(t *testing.T, text string, primary, final time.Duration) string {
	t.Helper()
	const width = 15 * 60 * 1_000_000_000
	nano := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixNano()
	}
	type row struct {
		slot      int64
		id, alert string
	}
	var rows []row
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		fields := strings.Split(line, ",")
		placed, shipped := nano(fields[1]), int64(1)<<62
		if fields[2] != "" {
			shipped = nano(fields[2])
		}
		for alert, delay := range map[string]time.Duration{"primary": primary, "final": final} {
			if slot := (placed + int64(delay) + width - 1) / width * width; shipped > slot {
				rows = append(rows, row{slot, fields[0], alert})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), strings.Compare(a.id, b.id), strings.Compare(a.alert, b.alert))
	})
	out := "order_id,alert,slot\n"
	for _, r := range rows {
		out += fmt.Sprintf("%s,%s,%s\n", r.id, r.alert, time.Unix(0, r.slot).UTC().Format("2006-01-02T15:04:05Z"))
	}
	return out
}

// replayed returns alerts.csv from the engine.
func replayed(t *testing.T, text string, r rule, parts int) (string, summary) {
	t.Helper()
	db, err := connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	orders, err := readOrders(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := playParts(t.Context(), db, orders, r, parts, func(summary) {})
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.GetContext(t.Context(), &left, `select count(*) from pg_namespace where nspname like 'prescient%'`); err != nil || left > 0 {
		t.Errorf("%d schemas are left behind, %v", left, err)
	}
	var out strings.Builder
	if err := writeAlerts(&out, sum.alerts); err != nil {
		t.Fatal(err)
	}
	return out.String(), sum
}

const realOrders = "../../../shared/data/northwind_orders.csv"

// Without cancellations, TestARuleGivesTheAlertsOfTheReplayAndOfArithmetic compares the same.
func TestReplayOfRealOrdersWithCancellationsIsWhatArithmeticGives(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(realOrders)
	if err != nil {
		t.Skip("the file of real orders is not here: ", err)
	}
	for _, r := range []rule{{48 * time.Hour, 120 * time.Hour, true}, {7 * 24 * time.Hour, 30 * 24 * time.Hour, true}} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			got, sum := replayed(t, string(text), r, 1)
			if diff := gocmp.Diff(expected(t, string(text), r.primary, r.final), got); diff != "" {
				t.Error(diff)
			}
			t.Log(sum)
		})
	}
}

func TestReplayOfRandomOrdersIsWhatArithmeticGives(t *testing.T) {
	t.Parallel()
	for i, r := range []rule{
		{7 * time.Minute, 11 * time.Minute, true}, // less than a slot apart
		{48 * time.Hour, 120 * time.Hour, false},
		{0, time.Nanosecond * 1000, false},
		{0, 15 * time.Minute, true},
		{1 * time.Microsecond, 15*time.Minute + time.Microsecond, true},
		{15 * time.Minute, 30 * time.Minute, false},
		{100 * time.Minute, 26*time.Hour + 1, true},
	} {
		if testing.Short() && i > 1 {
			break
		}
		r.final = r.final.Truncate(time.Microsecond)
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			text := randomOrders(rand.New(rand.NewPCG(7, uint64(i))), 150)
			got, sum := replayed(t, text, r, 1+i%3)
			if diff := gocmp.Diff(expected(t, text, r.primary, r.final), got); diff != "" {
				t.Error(diff)
			}
			if sum.orders != 150 || sum.ended != sum.asked || !r.cancel && sum.asked != 150 {
				t.Errorf("%d orders, of %d checks %d ended, want 150", sum.orders, sum.asked, sum.ended)
			}
		})
	}
}

// randomOrders returns a file of orders of three days, in random order. Some are on a slot, some a
// nanosecond or a microsecond beside one. Some are never shipped, and some before they were placed.
func randomOrders(r *rand.Rand, n int) string {
	start := time.Date(2024, time.February, 28, 0, 0, 0, 0, time.UTC) // includes a leap day
	instant := func(from time.Time, span int) string {
		at := from.Add(time.Duration(r.IntN(span)) * 15 * time.Minute)
		switch r.IntN(4) {
		case 0:
			at = at.Add(time.Duration(r.IntN(3)-1) * time.Microsecond)
		case 1:
			at = at.Add(time.Duration(r.IntN(3) - 1))
		case 2:
			at = at.Add(time.Duration(r.Int64N(int64(15 * time.Minute))))
		}
		zone := time.FixedZone("", (r.IntN(27)-12)*3600)
		return at.In(zone).Format(time.RFC3339Nano)
	}
	text := "order_id,placed_at,shipped_at\n"
	for _, id := range r.Perm(n) {
		shipped := ""
		if r.IntN(5) > 0 {
			shipped = instant(start.Add(-12*time.Hour), 8*96)
		}
		text += fmt.Sprintf("%d,%s,%s\n", id, instant(start, 3*96), shipped)
	}
	return text
}

func TestReplayOfNoOrdersRaisesNothing(t *testing.T) {
	t.Parallel()
	got, _ := replayed(t, "shipped_at,order_id,note,placed_at\n", rule{0, time.Hour, false}, 1)
	if got != "order_id,alert,slot\n" {
		t.Errorf("got %q", got)
	}
}

func TestReplayIsOneStoryHoweverFarApartOrdersAre(t *testing.T) {
	t.Parallel()
	text := "order_id,placed_at,shipped_at\nb,2024-01-01T00:00:00Z,\na,2034-01-01T00:00:01Z,\n"
	r := rule{48 * time.Hour, 120 * time.Hour, false}
	got, sum := replayed(t, text, r, 1)
	if diff := gocmp.Diff(expected(t, text, r.primary, r.final), got); diff != "" {
		t.Error(diff)
	}
	from, to := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2034, 1, 6, 0, 15, 0, 0, time.UTC)
	if want := int64(to.Sub(from)/(15*time.Minute)) + 1; sum.slots != want {
		t.Errorf("%d slots, want %d", sum.slots, want)
	}
}

func TestRulesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []rule{
		{-1, time.Hour, false},
		{time.Hour, time.Hour, false},
		{time.Hour, time.Minute, true},
		{0, 0, false},
		{0, 5 * 365 * 24 * time.Hour, false},
		{1, time.Hour, false},
	} {
		if r.validate() == nil {
			t.Errorf("%v is accepted", r)
		}
	}
	if err := (rule{maxFinal - time.Microsecond, maxFinal, false}).validate(); err != nil {
		t.Error(err)
	}
}

func TestTheLongestRuleIsWithinTheHorizon(t *testing.T) {
	t.Parallel()
	text := "order_id,placed_at,shipped_at\n1,2024-01-01T00:00:00.000001Z,\n"
	r := rule{maxFinal - time.Microsecond, maxFinal, false}
	got, _ := replayed(t, text, r, 1)
	if diff := gocmp.Diff(expected(t, text, r.primary, r.final), got); diff != "" {
		t.Error(diff)
	}
}
