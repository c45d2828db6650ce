package cmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/installcmd"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

const (
	// completeTime bounds the wait for the database of a user who presses tab.
	completeTime = time.Second
	// completed bounds the values of a kind that are offered.
	completed = 1000
	// completedSlots bounds the newest slots that are offered.
	completedSlots = 20
)

// offer returns the known values of one kind that begin with what was typed. It may return others.
// It is called after the settings are loaded.
type offer func(ctx context.Context, f *factory.Factory, typed string) []string

// offers has the kinds that a shell completes, by their name in help: an argument, or the value of
// a flag.
var offers = map[string]offer{
	"JOB": offerJobs, "ID": offerSchedules, "SLOT": offerSlots, "CONSUMER": offerConsumers,
	"ENTITY": offerEntities, "RULE": offerRules, "STORE": offerStores,
	"RECEIVER":    offerReceivers,
	"DEAD LETTER": offerDeadLetters,
	"SHELL":       offerWords(installcmd.Shells...), "LEVEL": offerWords("debug", "info", "warn", "error"),
	"FORMAT": offerWords("text", "json"),
}

// kindOf returns the kind of an argument, or of a flag of a command, whose name in help is word.
func kindOf(c *cobra.Command, flag, word string) string {
	of := ""
	if c.HasParent() {
		of = c.Parent().Name()
	}
	switch {
	case flag == "store", of == "stores" && word == "NAME":
		return "STORE"
	case flag == "entity":
		return "ENTITY"
	case flag == "id" && of == "events":
		return "DEAD LETTER"
	case flag == "" && of == "rules" && word == "NAME":
		return "RULE"
	}
	return word
}

// complete lets a shell complete the arguments and flags of a command and its subcommands.
func complete(f *factory.Factory, c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(f, sub)
	}
	if words := strings.Fields(c.Use)[1:]; c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			n := len(args)
			if last := len(words) - 1; n > last && last >= 0 && strings.Contains(words[last], "...") {
				n = last
			}
			if n >= len(words) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completion(f, kindOf(c, "", strings.Trim(words[n], "[].")), nil)(c, args, typed)
		}
	}
	add := func(flag *pflag.Flag) {
		var kind string
		kind, flag.Usage = pflag.UnquoteUsage(flag)
		words, _ := flag.Value.(interface{ Words() []string })
		var known offer
		if words != nil {
			known = offerWords(words.Words()...)
		}
		kind = kindOf(c, flag.Name, kind)
		_ = c.RegisterFlagCompletionFunc(flag.Name, completion(f, kind, known)) // an earlier completion stays
	}
	c.PersistentFlags().VisitAll(add)
	c.LocalNonPersistentFlags().VisitAll(add)
}

// completion offers the known values of a kind, and reports no errors.
func completion(f *factory.Factory, kind string, known offer) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case kind == "FILE":
			return nil, cobra.ShellCompDirectiveDefault
		case kind == "DIRECTORY":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case known == nil:
			known = offers[kind]
		}
		if err := f.LoadSilently(c.Flags()); err != nil || known == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values := slices.DeleteFunc(known(c.Context(), f, typed), func(value string) bool {
			return !strings.HasPrefix(value, typed) || plain.Text(value) != value || // a terminal would act on it
				strings.Contains(value, "\n")
		})
		return values[:min(len(values), completed)], cobra.ShellCompDirectiveNoFileComp
	}
}

func offerWords(words ...string) offer {
	return func(context.Context, *factory.Factory, string) []string { return slices.Clone(words) }
}

// offerJobs offers the jobs of the binary, of the settings and of the database.
func offerJobs(ctx context.Context, f *factory.Factory, _ string) []string {
	names := append(checks.Names(f), schedule.JobExec)
	names = append(names, look(ctx, f, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		client, err := database.Client(ctx, f, db, nil)
		if err != nil {
			return nil, err
		}
		return admin.New(client).JobNames(ctx, db, action.MostNames)
	})...)
	slices.Sort(names)
	return slices.Compact(names)
}

func offerSchedules(ctx context.Context, f *factory.Factory, typed string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) (ids []string, err error) {
		store, err := database.Schedules(ctx, f, db, nil)
		if err != nil {
			return nil, err
		}
		for s, err := range store.List(ctx, db, schedule.Filter{Prefix: typed, Limit: completed}) {
			if err != nil {
				return ids, err
			}
			ids = append(ids, cobra.CompletionWithDesc(s.ID, s.Crontab))
		}
		return ids, nil
	})
}

func offerSlots(ctx context.Context, f *factory.Factory, _ string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) (slots []string, err error) {
		ledger, err := database.Ledger(ctx, f, db)
		if err != nil {
			return nil, err
		}
		for s, err := range ledger.List(ctx, time.Time{}, time.Time{}, completedSlots) {
			if err != nil {
				return slots, err
			}
			slots = append(slots, cobra.CompletionWithDesc(spoken.Instant(s.Slot), string(s.State)))
		}
		return slots, nil
	})
}

func offerConsumers(ctx context.Context, f *factory.Factory, _ string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		list, err := outbox.New(db, f.Schema()).Consumers(ctx)
		return seq.Map(list, func(c outbox.Consumer) string { return c.Name }), err
	})
}

func offerEntities(ctx context.Context, f *factory.Factory, typed string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		client, err := database.Client(ctx, f, db, nil)
		if err != nil {
			return nil, err
		}
		return admin.New(client).EntityNames(ctx, db, typed, completed)
	})
}

func offerRules(ctx context.Context, f *factory.Factory, _ string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		ledger, err := database.Ledger(ctx, f, db)
		if err != nil {
			return nil, err
		}
		return ledger.Rules(ctx)
	})
}

// offerStores offers the stores of the settings.
func offerStores(_ context.Context, f *factory.Factory, _ string) []string {
	return seq.Map(f.Config().Stores, func(s config.Store) string { return s.Name })
}

// offerReceivers offers the receivers of the settings.
func offerReceivers(_ context.Context, f *factory.Factory, _ string) []string {
	return seq.Map(f.Config().Receivers, func(r config.Receiver) string { return r.Name })
}

func offerDeadLetters(ctx context.Context, f *factory.Factory, _ string) []string {
	return look(ctx, f, func(ctx context.Context, db *sqlx.DB) ([]string, error) {
		return deadletter.NewList(db, f.Schema()).IDs(ctx, completed)
	})
}

// look returns what fn finds in the database, or nothing if the database does not answer in time.
// Unlike Open it does not start or migrate the private PostgreSQL.
func look(
	ctx context.Context, f *factory.Factory, fn func(ctx context.Context, db *sqlx.DB) ([]string, error),
) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	found := make(chan []string, 1)
	go func() {
		defer close(found)
		db, err := database.Running(ctx, f)
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
