package demo

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func tell(t *testing.T, o Options) (Facts, string) {
	t.Helper()
	db, err := replay.Connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var out strings.Builder
	facts, err := Tell(t.Context(), db, &out, o)
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.GetContext(t.Context(), &left, `select count(*) from pg_namespace where nspname like 'prescient%'`); err != nil || left > 0 {
		t.Errorf("%d schemas are left behind, %v", left, err)
	}
	return facts, out.String()
}

func TestTheStoryOfAnySeedAddsUp(t *testing.T) {
	t.Parallel()
	seeds := []uint64{DefaultSeed, 2, 3}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		facts, out := tell(t, Options{Seed: seed, Name: "prescient"})
		if facts.Orders != orderCount || facts.Orders != facts.Waiting+facts.Ended {
			t.Errorf("seed %d: %d orders, %d wait and %d ended", seed, facts.Orders, facts.Waiting, facts.Ended)
		}
		missed := []time.Time{outage, outage.Add(15 * time.Minute), outage.Add(30 * time.Minute)}
		if diff := cmp.Diff(missed, facts.Missed); diff != "" || facts.Trouble != 0 {
			t.Errorf("seed %d: %d slots are in trouble at the end; missed: %s", seed, facts.Trouble, diff)
		}
		want := expected(seed)
		got := Facts{Primary: facts.Primary, Final: facts.Final, Caught: facts.Caught, Told: facts.Told}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
		if seed == DefaultSeed && (facts.Told == 0 || facts.Waiting == 0) {
			t.Errorf("the story has %d alerts of checks that were caught up, and %d orders wait in the end", facts.Told, facts.Waiting)
		}
		if facts.Messages != facts.Primary+facts.Final {
			t.Errorf("seed %d: the receiver got %d messages, want %d", seed, facts.Messages, facts.Primary+facts.Final)
		}
		if n := strings.Count(out, "\n"); n > 60 {
			t.Errorf("seed %d: %d lines", seed, n)
		}
	}
}

// expected is what plain arithmetic says of alerts and of the checks that were missed.
func expected(seed uint64) Facts {
	var f Facts
	look := func(o order, after time.Duration) (alert bool) {
		slot := o.placed.Add(after + 15*time.Minute - 1).Truncate(15 * time.Minute)
		now, missed := slot, !slot.Before(outage) && slot.Before(outage.Add(45*time.Minute))
		if missed {
			now = outage.Add(45 * time.Minute) // catch-up sees what the world is like then
			f.Caught++
		}
		alert = !slot.After(end) && (o.shipped.IsZero() || o.shipped.After(now))
		if alert && missed {
			f.Told++
		}
		return alert
	}
	for _, o := range generate(seed) {
		if !look(o, primary) {
			continue
		}
		f.Primary++
		if look(o, final) {
			f.Final++
		}
	}
	return f
}

func TestTheStoryOfASeedIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	_, first := tell(t, Options{Seed: DefaultSeed})
	_, second := tell(t, Options{Seed: DefaultSeed})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

func TestTheStoryIsAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	_, whole := tell(t, Options{Seed: DefaultSeed, Name: "prescient"})
	_, wrapped := tell(t, Options{Seed: DefaultSeed, Name: "prescient", Colour: true, Width: 80})
	wrapped = regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(wrapped, "")
	for line := range strings.Lines(wrapped) {
		if len(line) > 81 {
			t.Errorf("%d wide: %s", len(line)-1, line)
		}
	}
	if diff := cmp.Diff(strings.Fields(whole), strings.Fields(wrapped)); diff != "" || whole == wrapped {
		t.Errorf("wrapping changes words: %s", diff)
	}
}

func TestTheStoryIsPlainInAPipe(t *testing.T) {
	t.Parallel()
	_, plain := tell(t, Options{Seed: DefaultSeed})
	if regexp.MustCompile(`[^\n -~]`).MatchString(plain) {
		t.Errorf("it has more than printable ASCII:\n%q", plain)
	}
	_, coloured := tell(t, Options{Seed: DefaultSeed, Colour: true})
	if got := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(coloured, ""); got != plain || got == coloured {
		t.Error("colours change more than colours")
	}
}
