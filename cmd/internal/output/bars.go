package output

import (
	"io"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// Bars draws the progress of one piece of work after another, a bar for each. A nil Bars draws nothing.
type Bars struct {
	writer  progress.Writer
	what    string            // the current piece
	tracker *progress.Tracker // its bar; nil before the first Show
	drawing sync.WaitGroup
}

// NewBars returns bars on a terminal. total says that the size of the work is usually known.
func NewBars(out io.Writer, total bool) *Bars {
	w := progress.NewWriter()
	w.SetOutputWriter(out)
	w.SetUpdateFrequency(200 * time.Millisecond)
	w.Style().Visibility = progress.StyleVisibility{
		Percentage: total, Value: true, Speed: true, Time: true, ETA: total, Tracker: total,
	}
	return &Bars{writer: w}
}

// Show shows how much of a piece of work is done. It ends the bar of another piece. A total of 0 is unknown, and
// stays unknown for the piece.
func (b *Bars) Show(what string, done, total int64) {
	if b == nil {
		return
	}
	if b.tracker == nil {
		b.drawing.Go(b.writer.Render)
	}
	if b.tracker == nil || b.what != what {
		b.finish()
		b.what, b.tracker = what, &progress.Tracker{Message: what, Total: total, AutoStopDisabled: true}
		b.writer.AppendTracker(b.tracker)
	}
	if b.tracker.Total > 0 {
		b.tracker.UpdateTotal(max(total, done)) // the total may be an estimate
	}
	b.tracker.SetValue(done)
}

func (b *Bars) finish() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
	}
}

// Close draws the bars for the last time, before any other output.
func (b *Bars) Close() {
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
