package cmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/installcmd"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
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
	"JOB": offerJobs, "ID": found(findSchedules), "SLOT": found(findSlots), "CONSUMER": found(findConsumers),
	"ENTITY": found(findEntities), "RULE": found(findRules), "STORE": offerStores,
	"RECEIVER":    offerReceivers,
	"DEAD LETTER": found(findDeadLetters),
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
func offerJobs(ctx context.Context, f *factory.Factory, typed string) []string {
	names := append(checks.Names(f), schedule.JobExec)
	names = append(names, found(func(ctx context.Context, s *action.Store, _ string) ([]string, error) {
		return admin.New(s.Client).JobNames(ctx, s.DB, action.MostNames)
	})(ctx, f, typed)...)
	slices.Sort(names)
	return slices.Compact(names)
}

func findSchedules(ctx context.Context, s *action.Store, typed string) (ids []string, err error) {
	for v, err := range s.Schedules.List(ctx, s.DB, schedule.Filter{Prefix: typed, Limit: completed}) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, cobra.CompletionWithDesc(v.ID, v.Crontab))
	}
	return ids, nil
}

func findSlots(ctx context.Context, s *action.Store, _ string) (slots []string, err error) {
	for v, err := range s.Ledger.List(ctx, time.Time{}, time.Time{}, completedSlots) {
		if err != nil {
			return slots, err
		}
		slots = append(slots, cobra.CompletionWithDesc(spoken.Instant(v.Slot), string(v.State)))
	}
	return slots, nil
}

func findConsumers(ctx context.Context, s *action.Store, _ string) ([]string, error) {
	list, err := outbox.New(s.DB, s.Schema).Consumers(ctx)
	return seq.Map(list, func(c outbox.Consumer) string { return c.Name }), err
}

func findEntities(ctx context.Context, s *action.Store, typed string) ([]string, error) {
	return admin.New(s.Client).EntityNames(ctx, s.DB, typed, completed)
}

func findRules(ctx context.Context, s *action.Store, _ string) ([]string, error) {
	return s.Ledger.Rules(ctx)
}

func findDeadLetters(ctx context.Context, s *action.Store, _ string) ([]string, error) {
	return deadletter.NewList(s.DB, s.Schema).IDs(ctx, completed)
}

// offerStores offers the stores of the settings.
func offerStores(_ context.Context, f *factory.Factory, _ string) []string {
	return seq.Map(f.Config().Stores, func(s config.Store) string { return s.Name })
}

// offerReceivers offers the receivers of the settings.
func offerReceivers(_ context.Context, f *factory.Factory, _ string) []string {
	return seq.Map(f.Config().Receivers, func(r config.Receiver) string { return r.Name })
}

// found offers what fn finds in the database, or nothing if the database does not answer in time.
// Unlike Open it does not start or migrate the private PostgreSQL.
func found(fn func(ctx context.Context, s *action.Store, typed string) ([]string, error)) offer {
	return func(ctx context.Context, f *factory.Factory, typed string) []string {
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		answer := make(chan []string, 1)
		go func() {
			defer close(answer)
			db, err := database.Running(ctx, f)
			if err != nil {
				return
			}
			defer func() { _ = db.Close() }()
			setting, err := pgsql.ReadSetting(ctx, db, f.Schema())
			if err != nil {
				return
			}
			s, err := perform.On(ctx, f, db, setting)
			if err != nil {
				return
			}
			values, _ := fn(ctx, s, typed)
			answer <- values
		}()
		select {
		case values := <-answer:
			return values
		case <-ctx.Done(): // a connection may not notice
			return nil
		}
	}
}
