package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
)

var update = flag.Bool("update", false, "write the pictures that are drawn from measured rows")

// midnight begins the day of the picture.
var midnight = time.Date(2030, time.March, 2, 0, 0, 0, 0, time.UTC)

// What is asked for on that day: a tenth each for midnight and for 09:00, and the rest at any time.
const (
	rowsOfTheDay = 100_000
	rowsAtOnce   = 9_600
	slotsOfDay   = 96
)

// askedFor are the checks of the day. Those that everybody wants at once are content with any slot of the window.
func askedFor(within time.Duration) iter.Seq[jobs.Request] {
	random := rand.New(rand.NewPCG(9, 0))
	return func(yield func(jobs.Request) bool) {
		for i := range rowsOfTheDay {
			j := jobs.Request{EntityName: "customer", EntityKey: fmt.Sprint(i)}
			switch {
			case i < rowsAtOnce:
				j.JobExec, j.CheckAt, j.Within = "report.daily", midnight, within
			case i < 2*rowsAtOnce:
				j.JobExec, j.CheckAt, j.Within = "invoice.remind", midnight.Add(9*time.Hour), within
			default:
				j.JobExec = "order.unshipped"
				j.CheckAt = midnight.Add(time.Duration(random.Int64N(int64(24*time.Hour))) - grid.DefaultWidth)
			}
			if !yield(j) {
				return
			}
		}
	}
}

// load is the rows of each slot of the day, by what they were asked for.
type load struct{ atOnce, others [slotsOfDay]int }

func (l *load) peak() (most int) {
	for i := range slotsOfDay {
		most = max(most, l.atOnce[i]+l.others[i])
	}
	return most
}

// peakToMean is how much more the fullest slot has than all on average.
func (l *load) peakToMean() float64 { return float64(l.peak()) * slotsOfDay / rowsOfTheDay }

// measure enqueues the day, and counts what waits in the database.
func measure(t *testing.T, within time.Duration) *load {
	t.Helper()
	db := pgtest.New(t)
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Now: func() time.Time { return midnight.Add(-12 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueAll(t.Context(), jobs.OwnTx(db), askedFor(within)); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Slot   time.Time
		AtOnce bool
		N      int
	}
	err = db.SelectContext(t.Context(), &rows, `
		select next_check_at as slot, name <> 'order.unshipped' as atonce, count(*) as n
		from prescient.future_job join prescient.job using (job) group by 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	l, total := new(load), 0
	for _, row := range rows {
		slot := int(row.Slot.Sub(midnight) / grid.DefaultWidth)
		total += row.N
		if row.AtOnce {
			l.atOnce[slot] = row.N
		} else {
			l.others[slot] = row.N
		}
	}
	if total != rowsOfTheDay {
		t.Fatalf("%d rows", total)
	}
	return l
}

func TestThePictureOfSpreadingIsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it spreads the rows of a day twice")
	}
	before, after := measure(t, 0), measure(t, 8*time.Hour)
	if before.peakToMean() < 10 || after.peakToMean() > 1.3 {
		t.Errorf("peak to mean from %.2f to %.2f, want from 10 to 1.3", before.peakToMean(), after.peakToMean())
	}
	page, err := os.ReadFile("spreading.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf("| rows in the fullest slot | %s | %s |", thousands(before.peak()), thousands(after.peak())),
		fmt.Sprintf("| rows in a slot on average | %s | %[1]s |", thousands(rowsOfTheDay/slotsOfDay)),
		fmt.Sprintf("| peak to mean | %.1f : 1 | %.2f : 1 |", before.peakToMean(), after.peakToMean()),
	} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("spreading.md lacks the line %s", line)
		}
	}
	const file = "spreading.svg"
	drawn := draw(before, after)
	if *update {
		if err := os.WriteFile(file, drawn, 0o644); err != nil { //nolint:gosec // every user may read it
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, drawn) {
		t.Errorf("%s is not what was measured: make pictures. %v", file, err)
	}
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// The picture, in units of its own.
const (
	barWidth    = 8
	left        = 64
	panelHeight = 150
	panelTop    = 44
	panelStep   = panelTop + panelHeight + 36
	pictureWide = left + slotsOfDay*barWidth + 16
	pictureHigh = 2*panelStep + 8
)

const style = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .small { font-size: 11px; fill: #59636e; }
  .others { fill: #8c959f; }
  .once { fill: #bc4c00; }
  .mean { stroke: #0969da; stroke-dasharray: 4 3; }
  .axis { stroke: #8c959f; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .others { fill: #656c76; }
    .once { fill: #f0883e; }
    .mean { stroke: #4493f8; }
  }`

// draw draws a bar for each slot, before above and after below, each to the scale of its own fullest slot.
func draw(before, after *load) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc">`+"\n", pictureWide, pictureHigh)
	fmt.Fprintf(&b, "<title id=\"title\">Rows in each slot of a day, without and with a window of 8 hours</title>\n")
	fmt.Fprintf(&b, "<desc id=\"desc\">%s rows. Without a window the fullest slot has %.1f times the mean, with one %.2f times.</desc>\n",
		thousands(rowsOfTheDay), before.peakToMean(), after.peakToMean())
	fmt.Fprintf(&b, "<style>%s\n</style>\n", style)
	panel(&b, 0, "Everybody at midnight and at 09:00", before)
	panel(&b, panelStep, "The same, within 8 hours", after)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func panel(b *bytes.Buffer, top int, title string, l *load) {
	peak := l.peak()
	bottom := top + panelTop + panelHeight
	height := func(n int) float64 { return float64(n) * panelHeight / float64(peak) }
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s: peak to mean %.2f : 1</text>\n", left, top+20, title, l.peakToMean())
	for i := range slotsOfDay {
		x := left + i*barWidth
		others, once := height(l.others[i]), height(l.atOnce[i])
		bar(b, "others", x, float64(bottom)-others, others)
		bar(b, "once", x, float64(bottom)-others-once, once)
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", left, bottom, left+slotsOfDay*barWidth)
	mean := float64(bottom) - height(rowsOfTheDay/slotsOfDay)
	fmt.Fprintf(b, "<path class=\"mean\" d=\"M%d %.1fH%d\"/>\n", left, mean, left+slotsOfDay*barWidth)
	for hour := 0; hour <= 24; hour += 3 {
		fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%02d:00</text>\n", left+hour*4*barWidth, bottom+18, hour)
	}
	fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-6, top+panelTop+8, thousands(peak))
	fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">mean</text>\n", left-6, mean+4)
}

func bar(b *bytes.Buffer, class string, x int, y, height float64) {
	if height > 0 {
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n", class, x, y, barWidth-2, height)
	}
}
