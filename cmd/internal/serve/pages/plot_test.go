package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/duration"
)

func texts(levels []float64, text func(float64) string) (list []string) {
	for _, l := range levels {
		list = append(list, text(l))
	}
	return list
}

func TestTheLevelsOfAPlotAreRound(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]string{
		0: "0, 1", 1: "0, 1", 4: "0, 1, 2, 3, 4", 5: "0, 2, 4, 6", 43: "0, 20, 40, 60", 999: "0, 500, 1,000",
		10_000: "0, 5,000, 10 k", 1_234_567: "0, 500 k, 1 M, 1.5 M", 8_000_000_000: "0, 2000 M, 4000 M, 6000 M, 8000 M",
	} {
		if _, levels := rowLevels(most); strings.Join(texts(levels, rowText), ", ") != want {
			t.Errorf("%d rows: %v, want %s", most, texts(levels, rowText), want)
		}
	}
	for most, want := range map[time.Duration]string{
		0: "0, 100µs", 3 * time.Millisecond: "0, 1ms, 2ms, 3ms", 5*time.Second + 1: "0, 2s, 4s, 6s",
		50 * time.Minute: "0, 15m, 30m, 45m, 1h", 9 * day: "0, 5 days, 10 days",
	} {
		if _, levels := durationLevels(most); strings.Join(texts(levels, durationText), ", ") != want {
			t.Errorf("%s: %v, want %s", most, texts(levels, durationText), want)
		}
	}
}

func TestThePlotNamesRoundInstants(t *testing.T) {
	t.Parallel()
	from := time.Date(2030, time.March, 1, 21, 45, 0, 0, time.UTC)
	for length, want := range map[time.Duration][]string{
		20 * time.Second: {"21:45:00", "21:45:05", "21:45:10", "21:45:15"},
		6 * time.Hour:    {"22:00", "23:00", "Mar 2", "01:00", "02:00", "03:00"},
		7 * day:          {"Mar 2", "Mar 3", "Mar 4", "Mar 5", "Mar 6", "Mar 7", "Mar 8"},
		30 * day:         {"Mar 4", "Mar 11", "Mar 18", "Mar 25"}, // Mondays
	} {
		var got []string
		for _, tick := range (canvas{from: from, to: from.Add(length)}).ticks() {
			got = append(got, tick.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (- want, + got)\n%s", length, diff)
		}
	}
}

func TestABarStandsAtItsTimeAndAsHighAsItsRows(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, time.March, 1, 0, 0, 0, 0, time.UTC)
	cell := func(after time.Duration, rows int64) board.JobCell {
		return board.JobCell{
			Slot: at.Add(after), Span: duration.Text(15 * time.Minute), Slots: 1, Became: board.Became{Finished: rows},
		}
	}
	chart := newJobChart(board.Job{
		From: at, To: at.Add(day), Width: duration.Text(15 * time.Minute),
		Cells: []board.JobCell{cell(18*time.Hour, 1_000_000), cell(6*time.Hour, 500_000), cell(time.Hour, 1)}, // the newest first
	}, period{}, at.Add(12*time.Hour))
	var got []column
	for _, c := range chart.Rows.Columns {
		got = append(got, column{X: c.X, Width: c.Width, Height: c.Height, Link: c.Link})
	}
	want := []column{
		{X: "4.167%", Width: "1.042%", Height: leastHigh, Link: "/slot?at=2030-03-01T01%3A00%3A00Z"}, // one row is seen beside a million
		{X: "25%", Width: "1.042%", Height: columnsHigh / 2, Link: "/slot?at=2030-03-01T06%3A00%3A00Z"},
		{X: "75%", Width: "1.042%", Height: columnsHigh, Link: "/slot?at=2030-03-01T18%3A00%3A00Z"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(column{})); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	if chart.Rows.Now != "50.0%" {
		t.Errorf("now is at %s", chart.Rows.Now)
	}
}
