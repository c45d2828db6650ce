package rulescmd

import (
	"context"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs/rule/rulestore"
)

// progressOf returns a function that shows how many rows of a rule were worked on, on a terminal, and
// the function that ends it, before any other output. It logs once which session holds up the work,
// also in a pipe.
func progressOf(ctx context.Context, f *factory.Factory) (show func(p rulestore.Progress), end func()) {
	draw, end := bars(f)
	warned := map[string]bool{}
	return func(p rulestore.Progress) {
		if p.Waits == nil {
			draw(p)
		} else if why := p.Waits.Error(); !warned[why] {
			warned[why] = true
			f.Log().WarnContext(ctx, "waiting for a lock of a row", "rule", p.Rule, "lock", why)
		}
	}, end
}

// bars draws a bar for each rule on a terminal. In a pipe both functions do nothing.
func bars(f *factory.Factory) (draw func(p rulestore.Progress), end func()) {
	if !f.ErrIsTerminal() {
		return func(rulestore.Progress) {}, func() {}
	}
	w := progress.NewWriter()
	w.SetOutputWriter(f.Err())
	w.SetUpdateFrequency(200 * time.Millisecond)
	w.Style().Visibility = progress.StyleVisibility{Value: true, Speed: true, Time: true}
	var drawing sync.WaitGroup
	trackers := map[string]*progress.Tracker{}
	draw = func(p rulestore.Progress) {
		if len(trackers) == 0 {
			drawing.Go(w.Render)
		}
		if trackers[p.Rule] == nil {
			trackers[p.Rule] = &progress.Tracker{Message: "rule " + p.Rule, AutoStopDisabled: true}
			w.AppendTracker(trackers[p.Rule])
		}
		trackers[p.Rule].SetValue(p.Rows)
	}
	return draw, func() {
		for _, t := range trackers {
			t.MarkAsDone()
		}
		if len(trackers) > 0 {
			for !w.IsRenderInProgress() {
				time.Sleep(time.Millisecond) // Stop has no effect before
			}
			w.Stop()
			drawing.Wait()
		}
	}
}
