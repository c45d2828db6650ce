package runcmd

import (
	"io"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
)

// bars shows the progress of runs on a terminal, a bar for each slot. In a pipe it shows nothing.
type bars struct {
	writer  progress.Writer
	slot    time.Time
	tracker *progress.Tracker
	known   bool // the number of rows is known
	drawing sync.WaitGroup
}

// newBars returns nil if the log does not go to a terminal, and for one store among several.
func newBars(f *factory.Factory) *bars {
	if !f.ErrIsTerminal() || f.Store().Several {
		return nil
	}
	return barsOn(f.Err())
}

func barsOn(out io.Writer) *bars {
	w := progress.NewWriter()
	w.SetOutputWriter(out)
	w.SetUpdateFrequency(200 * time.Millisecond)
	w.Style().Visibility = progress.StyleVisibility{
		Percentage: true, Value: true, Speed: true, Time: true, ETA: true, Tracker: true,
	}
	return &bars{writer: w}
}

// show implements slots.Config.Progress.
func (b *bars) show(p slots.Progress) {
	if b == nil {
		return
	}
	if b.tracker == nil {
		b.drawing.Go(b.writer.Render)
	}
	if b.tracker == nil || !b.slot.Equal(p.Slot) {
		b.finish()
		b.start(p)
	}
	if b.known {
		b.tracker.UpdateTotal(max(p.Planned, p.Recorded)) // planned may be an estimate
	}
	b.tracker.SetValue(p.Recorded)
}

// start begins the bar of a slot. The number of stragglers is unknown: they came after the slot was
// planned.
func (b *bars) start(p slots.Progress) {
	b.slot, b.known = p.Slot, p.Planned > p.Recorded
	b.tracker = &progress.Tracker{Message: "slot " + spoken.Instant(p.Slot), AutoStopDisabled: true}
	if b.known {
		b.tracker.Total = p.Planned
	}
	b.writer.AppendTracker(b.tracker)
}

func (b *bars) finish() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
	}
}

// close draws the bars for the last time, before any other output.
func (b *bars) close() {
	if b == nil || b.tracker == nil {
		return
	}
	b.finish()
	drawn := make(chan struct{})
	go func() {
		b.drawing.Wait()
		close(drawn)
	}()
	for {
		b.writer.Stop() // without effect before drawing has begun
		select {
		case <-drawn:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
