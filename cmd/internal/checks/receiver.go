package checks

import (
	"context"
	"slices"

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

// WarnOfReceiver warns of messages to a receiver that the settings do not have. Those of the runs may have it. of is
// what has the messages. An empty receiver is none.
func WarnOfReceiver(ctx context.Context, f *factory.Factory, receiver, of string) {
	known := func(r config.Receiver) bool { return r.Name == receiver }
	if receiver == "" || slices.ContainsFunc(f.Config().Receivers, known) {
		return
	}
	f.Log().WarnContext(ctx, "the settings here have no such receiver: it gets the messages that are written after a run "+
		"has had it in receivers, and none before", "receiver", receiver, "of", of)
}
