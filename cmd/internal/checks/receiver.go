package checks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
)

// ReceiverProblems says what is wrong with the receivers of the settings, so that no run begins.
func ReceiverProblems(f *factory.Factory) (list []string) {
	for _, to := range f.Config().Receivers {
		r, err := OpenReceiver(f, to)
		if err != nil {
			list = append(list, err.Error())
			continue
		}
		_ = r.Close() // nothing was sent
	}
	if err := checkAlerts(f); err != nil {
		list = append(list, err.Error())
	}
	return list
}

// WarnOfReceiver warns that the settings do not have a receiver of messages. The settings of the runs may have it. of
// names the rule or the schedule that sends the messages. An empty receiver means no message, and no warning.
func WarnOfReceiver(ctx context.Context, f *factory.Factory, receiver, of string) {
	if receiver == "" || slices.Contains(receiverNames(f), receiver) {
		return
	}
	attrs := []any{"receiver", receiver, "of", of}
	if hint := strings.TrimLeft(OtherReceivers(f, receiver), ":; "); hint != "" {
		attrs = append(attrs, "hint", hint)
	}
	f.Log().WarnContext(ctx, "the settings here have no such receiver: messages that are written before a run has it "+
		"in its settings are never sent", attrs...)
}

// OtherReceivers asks whether another receiver was meant, or names those of the settings.
func OtherReceivers(f *factory.Factory, typed string) string {
	names := receiverNames(f)
	return cmp.Or(spoken.Meant(typed, names), cli.Known("receiver", names))
}

// receiverNames returns the names of the receivers of the settings.
func receiverNames(f *factory.Factory) []string {
	return seq.Map(f.Config().Receivers, func(r config.Receiver) string { return r.Name })
}

// TakesHTML reports whether a receiver sends mail, or is not in the settings here.
func TakesHTML(f *factory.Factory, receiver string) bool {
	return !slices.ContainsFunc(f.Config().Receivers, func(r config.Receiver) bool {
		return r.Name == receiver && !strings.HasPrefix(r.URL.Reveal(), "smtp")
	})
}
