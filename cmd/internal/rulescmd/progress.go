package rulescmd

import (
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs/rule/rulestore"
)

// progressOf returns a function that shows how many rows of a rule were worked on, on a terminal, and
// the function that ends it, before any other output. In a pipe both do nothing.
func progressOf(f *factory.Factory) (show func(p rulestore.Progress), end func()) {
	if !f.ErrIsTerminal() {
		return func(rulestore.Progress) {}, func() {}
	}
	w := progress.NewWriter()
	w.SetOutputWriter(f.Err())
	w.SetUpdateFrequency(200 * time.Millisecond)
	w.Style().Visibility = progress.StyleVisibility{Value: true, Speed: true, Time: true}
	var drawing sync.WaitGroup
	trackers := map[string]*progress.Tracker{}
	show = func(p rulestore.Progress) {
		if len(trackers) == 0 {
			drawing.Go(w.Render)
		}
		if trackers[p.Rule] == nil {
			trackers[p.Rule] = &progress.Tracker{Message: "rule " + p.Rule, AutoStopDisabled: true}
			w.AppendTracker(trackers[p.Rule])
		}
		trackers[p.Rule].SetValue(p.Rows)
	}
	return show, func() {
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
