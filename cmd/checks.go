package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file" // linked into every binary, unlike brokers
	_ "github.com/prescient-go/prescient/jobs/event/outbox"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// withChecks is withDB for commands that run checks. The registry has the jobs of the binary, the
// jobs that the settings bind to a service or a query, and the job of schedules. Events go to
// events.destination.
func (a *App) withChecks(ctx context.Context, fn func(db *sqlx.DB, registry *jobs.Registry) error) error {
	return a.withPublished(ctx, func(db *sqlx.DB, registry *jobs.Registry, _ event.Publisher, _ pgsql.Setting) error {
		return fn(db, registry)
	})
}

// withPublished is withChecks for a command that also publishes events itself.
func (a *App) withPublished(ctx context.Context, fn func(db *sqlx.DB, registry *jobs.Registry, publisher event.Publisher, s pgsql.Setting) error) error {
	return a.withDB(ctx, func(db *sqlx.DB, setting pgsql.Setting) (err error) {
		database, err := a.newDatabaseView(setting)
		if err != nil {
			return err
		}
		a.log.InfoContext(ctx, "connected", "database", database.String())
		publisher, err := a.publisher(ctx, db)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, publisher.Close()) }()
		if a.metrics != nil {
			publisher = a.metrics.Publisher(publisher)
		}
		registry := engine.Clone(a.registry)
		publisher = traced(publisher, registry)
		release, err := a.bind(ctx, registry, publisher)
		if err != nil {
			return err
		}
		defer release()
		a.registerSchedules(registry, publisher)
		return fn(db, registry, publisher, setting)
	})
}

// eventFlags adds --events-destination, which offers the schemes that are linked into this binary.
func eventFlags(c *cobra.Command) {
	config.EventFlags(c.Flags())
	schemes := event.Schemes()
	for i := range schemes {
		schemes[i] += ":"
	}
	c.Flags().Lookup("events-destination").Usage += "; this binary has " + strings.Join(schemes, ", ")
	_ = c.RegisterFlagCompletionFunc("events-destination", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return schemes, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

func (a *App) publisher(ctx context.Context, db *sqlx.DB) (event.Publisher, error) {
	events := a.Config().Events
	publisher, err := event.Open(ctx, events.Destination.Reveal(), event.Config{
		DB: db, Schema: a.schema(), Secret: events.Secret.Reveal(), Allow: events.AllowedNetworks, Logger: a.log,
	})
	if err != nil {
		return nil, &ExitError{Code: Usage, Err: fmt.Errorf("events.destination (%s): %w", a.origin("events.destination"), err)}
	}
	return publisher, nil
}

// traced is a publisher whose work has a span.
func traced(p event.Publisher, registry *jobs.Registry) event.Publisher {
	return event.Wrap(p, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		ctx, end := engine.StartSpan(ctx, registry, "publish", slog.Int("events", len(events)))
		err := publish(ctx)
		end(err)
		return err
	})
}

// registerSchedules adds the job of schedules, unless the binary has its own, with its own
// publisher.
func (a *App) registerSchedules(registry *jobs.Registry, publisher event.Publisher) {
	for d := range engine.All(registry) {
		if d.Name == schedule.JobExec {
			return
		}
	}
	schedule.Register(registry, &schedule.PublishConfig{Publisher: publisher, Source: a.Config().Events.Source, Schema: a.schema()})
}
