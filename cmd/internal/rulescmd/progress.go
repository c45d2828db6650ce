package rulescmd

import (
	"context"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/rulestore"
)

// progressOf returns a function that shows how many rows of a rule were worked on, on a terminal, and
// the function that ends it, before any other output. It logs once which session holds up the work,
// also in a pipe.
func progressOf(ctx context.Context, f *factory.Factory) (show func(p rulestore.Progress), end func()) {
	var bars *output.Bars
	if f.ErrIsTerminal() {
		bars = output.NewBars(f.Err(), false)
	}
	warned := map[string]bool{}
	return func(p rulestore.Progress) {
		if p.Waits == nil {
			bars.Show("rule "+p.Rule, p.Rows, 0)
		} else if why := p.Waits.Error(); !warned[why] {
			warned[why] = true
			f.Log().WarnContext(ctx, "waiting for a lock of a row", "rule", p.Rule, "lock", why)
		}
	}, bars.Close
}
