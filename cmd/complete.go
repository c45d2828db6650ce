package cmd

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/installcmd"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/embedded"
)

const (
	// completeTime bounds the wait for the database of a user who presses tab.
	completeTime = time.Second
	// completed bounds the values of a kind that are offered.
	completed = 1000
	// completedSlots bounds the newest slots that are offered.
	completedSlots = 20
)

// offer returns the known values of one kind. It is called after the settings are loaded.
type offer func(ctx context.Context, a *App) []string

// offers has the kinds that a shell completes, by their name in help: an argument, or the value of
// a flag.
var offers = map[string]offer{
	"JOB": offerJobs, "ID": offerSchedules, "SLOT": offerSlots, "CONSUMER": offerConsumers,
	"SHELL": offerWords(installcmd.Shells...), "LEVEL": offerWords("debug", "info", "warn", "error"), "FORMAT": offerWords("text", "json"),
}

// complete lets a shell complete the arguments and flags of a command and its subcommands.
func (a *App) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
	if names := strings.Fields(c.Use)[1:]; c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) >= len(names) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completion(names[len(args)], nil)(c, args, typed)
		}
	}
	complete := func(f *pflag.Flag) {
		var kind string
		kind, f.Usage = pflag.UnquoteUsage(f)
		words, _ := f.Value.(interface{ Words() []string })
		var known offer
		if words != nil {
			known = offerWords(words.Words()...)
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, a.completion(kind, known)) // an earlier completion stays
	}
	c.PersistentFlags().VisitAll(complete)
	c.LocalNonPersistentFlags().VisitAll(complete)
}

// completion offers the known values of a kind, and reports no errors.
func (a *App) completion(kind string, known offer) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case kind == "FILE":
			return nil, cobra.ShellCompDirectiveDefault
		case kind == "DIRECTORY":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case known == nil:
			known = offers[kind]
		}
		var err error
		a.log = slog.New(slog.DiscardHandler)
		if a.config, err = config.Load(c.Flags()); err != nil || known == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values := slices.DeleteFunc(known(c.Context(), a), func(value string) bool { // a terminal would act on them
			return plain.Text(value) != value || strings.Contains(value, "\n")
		})
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func offerWords(words ...string) offer { return func(context.Context, *App) []string { return words } }

// offerJobs offers the jobs of the binary, of the settings and of the database.
func offerJobs(ctx context.Context, a *App) []string {
	names := append(a.jobNames(), schedule.JobExec)
	names = append(names, a.look(ctx, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		client, err := a.client(ctx, db)
		if err != nil {
			return nil, err
		}
		return admin.New(client).JobNames(ctx, db, completed)
	})...)
	slices.Sort(names)
	return slices.Compact(names)
}

func offerSchedules(ctx context.Context, a *App) []string {
	return a.look(ctx, func(ctx context.Context, db *sqlx.DB) (ids []string, err error) {
		store, err := a.schedules(ctx, db)
		if err != nil {
			return nil, err
		}
		list, err := store.List(ctx, db, schedule.Filter{Limit: completed})
		for _, s := range list {
			ids = append(ids, cobra.CompletionWithDesc(s.ID, s.Crontab))
		}
		return ids, err
	})
}

func offerSlots(ctx context.Context, a *App) []string {
	return a.look(ctx, func(ctx context.Context, db *sqlx.DB) (slots []string, err error) {
		ledger, err := a.ledger(ctx, db)
		if err != nil {
			return nil, err
		}
		list, err := ledger.List(ctx, time.Time{}, time.Time{}, completedSlots)
		for _, s := range list {
			slots = append(slots, cobra.CompletionWithDesc(s.Slot.UTC().Format(time.RFC3339), string(s.State)))
		}
		return slots, err
	})
}

func offerConsumers(ctx context.Context, a *App) []string {
	return a.look(ctx, func(ctx context.Context, db *sqlx.DB) (names []string, err error) {
		list, err := outbox.New(db, a.schema()).Consumers(ctx)
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names, err
	})
}

// look returns what fn finds in the database, or nothing if the database does not answer in time.
// Unlike Open it does not start or migrate the private PostgreSQL.
func (a *App) look(ctx context.Context, fn func(ctx context.Context, db *sqlx.DB) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	found := make(chan []string, 1)
	go func() {
		defer close(found)
		db, err := a.running(ctx)
		if err != nil {
			return
		}
		defer func() { _ = db.Close() }()
		values, _ := fn(ctx, db)
		found <- values
	}()
	select {
	case values := <-found:
		return values
	case <-ctx.Done(): // a connection may not notice
		return nil
	}
}

// running connects to the database if it runs.
func (a *App) running(ctx context.Context) (*sqlx.DB, error) {
	if !a.private() {
		return openURL(ctx, a.Config().Database.URL.Reveal())
	}
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		return nil, err
	}
	if status, err := server.Status(ctx); err != nil || !status.Running {
		return nil, errors.Join(err, errors.New("the private PostgreSQL does not run"))
	}
	return openURL(ctx, server.URL())
}
