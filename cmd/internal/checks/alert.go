package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/alert"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	// lookPause is how often a daemon looks for findings to tell.
	lookPause = 20 * time.Second
	// lookEvery is the shortest time between two looks of all processes.
	lookEvery = 5 * time.Second
	// lookTime bounds a look.
	lookTime = 30 * time.Second
)

// checkAlerts returns an error of usage if findings go to a receiver that the settings do not have.
func checkAlerts(f *factory.Factory) error {
	name := f.Config().Alerts.Receiver
	names := receiverNames(f)
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	return exit.Usagef("alerts.receiver (%s): there is no receiver %q%s", f.Origin("alerts.receiver"), name,
		cmp.Or(spoken.Meant(name, names), ": add it to receivers in the configuration file"))
}

// tellFindings tells the receiver of alerts what has changed. A look ends after limit. An error is logged, because all
// checks were done.
func (b *Bound) tellFindings(ctx context.Context, f *factory.Factory, limit time.Duration) {
	alerts := f.Config().Alerts
	if alerts.Receiver == "" || ctx.Err() != nil {
		return
	}
	looking, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the look did not end within %s", limit))
	defer cancel()
	knows, err := Knows(looking, f, ledger.Of(b.DB, f.Schema(), b.Setting, nil))
	if err == nil {
		err = alert.Tell(looking, alert.Config{
			DB: b.DB, Schema: f.Schema(), Receiver: alerts.Receiver, Repeat: alerts.Repeat, Of: f.Store().Own(), Self: f.Self(),
			Knows: knows, Every: lookEvery, Logger: f.Log(),
		})
	}
	if err != nil && ctx.Err() == nil {
		f.Log().WarnContext(ctx, "findings were not told to the receiver of alerts; the next look tells them",
			"error", cmp.Or(context.Cause(looking), err))
	}
}

// tellWhile tells findings from time to time while fn runs.
func (b *Bound) tellWhile(ctx context.Context, f *factory.Factory, fn func() error) error {
	if f.Config().Alerts.Receiver == "" {
		return fn()
	}
	looking, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(lookPause)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.tellFindings(looking, f, lookTime)
			case <-looking.Done():
				return
			}
		}
	})
	defer work.Wait()
	defer end()
	return fn()
}

// QuietTold lets failures of which a person was told already be no warnings of the log, which cron mails.
func (b *Bound) QuietTold(ctx context.Context, f *factory.Factory) {
	b.Told = told(b.findings(ctx, f))
}

// findings returns the findings of which a person was told. If they cannot be read, the log warns, which is the safe
// side.
func (b *Bound) findings(ctx context.Context, f *factory.Factory) []alert.Known {
	receiver := f.Config().Alerts.Receiver
	if receiver == "" {
		return nil
	}
	list, err := alert.Told(ctx, b.DB, f.Schema(), receiver)
	if err != nil {
		return nil
	}
	return list
}

// tellsOf reports whether a person was told that a destination is behind. Of the receiver of alerts itself no person is
// told.
func tellsOf(list []alert.Known, f *factory.Factory, destination string) bool {
	own := message.Consumer(f.Config().Alerts.Receiver)
	is := health.Finding{Condition: "destinations", About: destination}.Name()
	return destination != own && slices.ContainsFunc(list, func(k alert.Known) bool {
		return k.Finding == is
	})
}

// told returns a function that reports whether a person was told that checks of a job fail, or that its rows gave up.
// The failures of schedules have a finding of their own.
func told(list []alert.Known) func(job string, gaveUp bool) bool {
	known := map[string]bool{}
	for _, k := range list {
		known[k.Finding] = true
	}
	return func(job string, gaveUp bool) bool {
		return known["gave-up/"+job] || !gaveUp && (known["failing/"+job] || known["publishing/"+job])
	}
}
