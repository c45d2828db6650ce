package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// NewCmdWhy returns the command why.
func NewCmdWhy(f *factory.Factory) *cobra.Command {
	var key jobs.Key
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "why ENTITY KEY",
		Short: "Show the history of the checks of an entity",
		Long: `Show the history of the checks of an entity, in order: who requested them, when and for
when, who moved, replaced or cancelled them, and how they ended. It shows the runner, lateness, run time and error of
each check, and the steps of a rule that the check has fired. It shows when the messages of these steps, or of a
schedule, were sent, or why they were not. For a waiting row, it shows when the row is due and what
blocks it. All instants are in UTC. The last line counts the events of steps that are dead letters, if there are any.
If the entity has no check with this key, it names entities that do, or the key that the row of a rule's
table had before.

The command shows the newest 1,000 waiting rows, and the newest 1,000 ended rows. It names the role,
the application_name and, if the application has set one, the actor. Of each row, the beginning, the end and the newest
20 entries between them are kept.`,
		Example: `  prescient why orders 42
  prescient why orders 42 --job order.unshipped --output json
  prescient why schedule standup`,
		Args: cli.Exactly("ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			key.EntityName, key.EntityKey = args[0], args[1]
			var told atomic.Bool
			var names entities
			err := database.Look(c.Context(), f, func(ctx context.Context, f *factory.Factory) error {
				return why(ctx, f, key, &told, &names)
			})
			if err != nil || told.Load() || f.IsJSON() {
				return err
			}
			of := ""
			if key.JobExec+key.ItemKey != "" {
				of = " of this job and item"
			}
			return f.Sentence(fmt.Sprintf("%s %s has no check%s: none with a key waits, and none is in history.%s",
				key.EntityName, key.EntityKey, of, names.hint(f.Self(), key)))
		},
	}))
	cli.WordVar(c.Flags(), &key.JobExec, "job", "only this `JOB`")
	cli.WordVar(c.Flags(), &key.ItemKey, "item",
		"only this `KEY`, which distinguishes two checks of one job on one entity")
	return c
}

// why prints the timeline, if there is one.
func why(ctx context.Context, f *factory.Factory, key jobs.Key, told *atomic.Bool, names *entities) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		db, c, now := s.DB, s.Client, s.Ledger.Now()
		events, err := admin.New(c).Timeline(ctx, db, key)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			checks.Warn(ctx, f, db, c, key.JobExec)
			if err := others(ctx, c, db, key, names); err != nil {
				return err
			}
		}
		views := []view.Event{}
		rows := map[int64]bool{}
		for _, e := range events {
			views = append(views, view.NewEvent(e))
			rows[e.ID] = true
		}
		if len(rows) >= admin.MaxRows {
			f.Log().WarnContext(ctx, "only the newest rows are shown, and there may be more: narrow them with --job and --item",
				"rows", len(rows))
		}
		return f.Print(views, func() error {
			if len(views) == 0 {
				return nil
			}
			told.Store(true)
			lines := wrapped(admin.Why{Entries: events, Now: now, Binary: f.Self()}.Lines(), f.Width())
			about, err := subjects(ctx, c, db, key, events)
			if err != nil {
				return err
			}
			told, wrong := messages(ctx, f, db, about)
			dead, err := undelivered(ctx, f, db, about)
			return errors.Join(err, wrong, f.Lines(slices.Concat(lines, told, dead)...))
		})
	})
}

// subjects returns the subjects of the events about an entity: of the steps of a rule, if it has fired one, also those
// of keys that the row had before, or of a schedule.
func subjects(
	ctx context.Context, c *jobs.Client, db *sqlx.DB, key jobs.Key, events []admin.TimelineEntry,
) (list []string, err error) {
	switch {
	case key.EntityName == schedule.EntityName:
		return []string{key.EntityKey}, nil
	case !slices.ContainsFunc(events, func(e admin.TimelineEntry) bool { return len(e.Fired) > 0 }):
		return nil, nil
	}
	keys, err := admin.New(c).FormerKeys(ctx, db, key.EntityName, key.EntityKey)
	for _, k := range append(keys, key.EntityKey) {
		list = append(list, rule.Subject(key.EntityName, k))
	}
	return list, err
}

// messages says what became of the messages about subjects.
func messages(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, subjects []string,
) (lines []string, err error) {
	var all []outbox.Told
	for _, subject := range subjects {
		list, err := outbox.New(db, f.Schema()).Messages(reserved.Caller{}, ctx, subject)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b outbox.Told) int { return a.At.Compare(b.At) })
	for i, told := range all {
		if i == 0 {
			lines = []string{"", "messages:"}
		}
		lines = append(lines, strings.Map(plain.Printable, spoken.Instant(told.At)+"  "+view.Told(told)))
	}
	return lines, nil
}

// undelivered says how many events of subjects are dead letters.
func undelivered(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, subjects []string,
) (lines []string, err error) {
	for _, subject := range subjects {
		found, err := deadletter.NewList(db, f.Schema()).Count(ctx, deadletter.Filter{Subject: subject})
		if err != nil {
			return nil, err
		}
		if found.Letters > 0 {
			lines = append(lines, "", fmt.Sprintf("%s about it %s not delivered: see %s events dead --subject %s",
				spoken.Count(found.Letters, "event", "events"),
				spoken.Noun(found.Letters, "is a dead letter,", "are dead letters,"), f.Self(), spoken.Word(subject)))
		}
	}
	return lines, nil
}

// wrapped wraps lines of an instant and a sentence at a width other than 0, which is that of the terminal.
func wrapped(lines []string, width int) []string {
	const at = len("2026-03-01T13:05:00Z  ")
	for i, line := range lines {
		if width > 0 && len(line) > at && line[at-2:at] == "  " { // no heading of a row
			lines[i] = line[:at] + strings.ReplaceAll(output.Wrap(line[at:], width-at), "\n", "\n"+strings.Repeat(" ", at))
		}
	}
	return lines
}

// entities are the names of entities that have a key, of all stores, and the keys that the entity had before.
type entities struct {
	mu            sync.Mutex
	names, before []string
}

// hint says under which key the checks of the entity are, or what other entities have the key. A rule names its
// entities after the table.
func (e *entities) hint(self string, key jobs.Key) string {
	switch {
	case len(e.before) > 0:
		return fmt.Sprintf(" It had the key %s when its checks ended: %s why %s %s", spoken.List(e.before), self,
			spoken.Word(key.EntityName), spoken.Word(e.before[0]))
	case len(e.names) > 0:
		return fmt.Sprintf(" Are the names right? The key belongs to %s: %s why %s %s", spoken.List(e.names), self,
			spoken.Word(e.names[0]), spoken.Word(key.EntityKey))
	}
	return " Are the names right?"
}

// others adds the names of other entities that have the key, and the keys that the entity had before.
func others(ctx context.Context, c *jobs.Client, db *sqlx.DB, key jobs.Key, e *entities) error {
	found, err := admin.New(c).Kinds(ctx, db, key.EntityKey)
	if err != nil {
		return err
	}
	before, err := admin.New(c).FormerKeys(ctx, db, key.EntityName, key.EntityKey)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before = append(e.before, before...)
	for _, name := range found {
		if name != key.EntityName && !slices.Contains(e.names, name) {
			e.names = append(e.names, name)
		}
	}
	return nil
}
