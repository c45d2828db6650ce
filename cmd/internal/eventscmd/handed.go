package eventscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/jobs/rule/rulestore"
)

// tailHanded prints the newest events that rules have handed to a destination, the newest last.
func tailHanded(ctx context.Context, f *factory.Factory, store *rulestore.Store, limit cli.Count) error {
	list, err := store.LastFired(ctx, f.Config().Events.Source, output.OneMore(limit))
	if err != nil {
		return err
	}
	f.Log().WarnContext(ctx, "the outbox has no new events: events.destination sends them elsewhere. Listed are those "+
		"that rules have handed over in the last 30 days, also to an earlier destination, without their data. "+
		"Those of schedules are not listed, see schedules show. For the outbox, give --after 0-0",
		"destination", f.Config().Events.Destination.String(), "origin", f.Origin("events.destination"))
	list = output.Limited(ctx, f.Log(), list, limit, "give a larger --limit")
	slices.Reverse(list)
	lines := make([]string, len(list))
	for i, e := range list {
		if lines[i], err = handedLine(f, e); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return f.Lines(lines...)
}

// handedLine returns the line of an event.
func handedLine(f *factory.Factory, e rulestore.HandedEvent) (string, error) {
	if f.IsJSON() {
		text, err := json.Marshal(e)
		if err != nil {
			return "", fmt.Errorf("event %s: %w", e.ID, err)
		}
		return string(plain.JSON(text)), nil
	}
	line := fmt.Sprint(output.Cell(e.FiredAt), "  ", output.Cell(e.ID), "  ", output.Cell(e.Type), "  ",
		output.Cell(e.Subject), "  rule ", output.Cell(e.Rule), ", step ", output.Cell(rule.Repetition(e.Step, e.Number)))
	if e.Dead {
		line += "  dead letter"
	}
	if width := f.Width(); width > 0 {
		line = output.Cut(line, width)
	}
	return line, nil
}
