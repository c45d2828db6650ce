package checks

import (
	"context"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
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
	known := func(r config.Receiver) bool { return r.Name == receiver }
	if receiver == "" || slices.ContainsFunc(f.Config().Receivers, known) {
		return
	}
	f.Log().WarnContext(ctx, "the settings here have no such receiver: it gets the messages that are written after a run "+
		"has had it in receivers, and none before", "receiver", receiver, "of", of)
}

// TakesHTML reports whether a receiver sends mail, or is not in the settings here.
func TakesHTML(f *factory.Factory, receiver string) bool {
	return !slices.ContainsFunc(f.Config().Receivers, func(r config.Receiver) bool {
		return r.Name == receiver && !strings.HasPrefix(r.URL.Reveal(), "smtp")
	})
}
