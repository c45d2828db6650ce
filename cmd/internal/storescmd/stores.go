// Package storescmd has the commands that list stores and move rows between them.
package storescmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdStores returns the command stores, with those below it.
func NewCmdStores(f *factory.Factory) *cobra.Command {
	c := cli.Group("stores", "List stores, add and drain them, and move rows between them", newCmdList(f), newCmdAdd(f),
		newCmdDrain(f), newCmdMove(f))
	c.Long = `List stores, add and drain them, and move rows between them. The settings list the
stores. Each is a schema of a database. Other commands work on the store of --store. Without it, a
command whose help says so works on all stores.`
	return factory.EveryStore(c)
}

// withStores calls fn with the stores of the settings, of which those that do not answer have an error.
func withStores(ctx context.Context, f *factory.Factory, fn func(set *stores.Set) error) error {
	if len(f.Config().Stores) == 0 {
		return exit.Usagef("the settings list no stores: add them to stores in a configuration file")
	}
	all := database.All(ctx, f)
	list := make([]stores.Store, len(all))
	var opening sync.WaitGroup
	for i, s := range all {
		opening.Go(func() { // those of a server that is down are given up together
			list[i] = stores.Store{Name: s.Name, Schema: s.Database.Schema, Err: s.Err}
			if s.Err != nil {
				return
			}
			db, err := database.Connect(ctx, f.On(s))
			if list[i].Err = err; err == nil {
				list[i].DB = db // a nil *sqlx.DB would be a database that is there
			}
		})
	}
	opening.Wait()
	cfg := f.Config()
	set, err := stores.New(ctx, list, jobs.Config{
		// what does not answer is told of below
		Horizon: cfg.Jobs.Horizon, MaxPayload: cfg.Jobs.MaxPayload, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return fn(set)
}

// storeState describes a store for stores list.
type storeState struct {
	Name     string        `json:"name"`
	Database view.Database `json:"database"`
	State    string        `json:"state"`          // active, draining, empty (may be removed), not migrated, or down
	Error    string        `json:"error"`          // why it is down or not migrated; empty: it is neither
	Since    *time.Time    `json:"draining_since"` // UTC; null: it is not draining
	By       string        `json:"draining_by"`    // the user who was logged in; empty: it is not draining
	// rows, without those of periodic, counted up to 10,000; 0 if Error is not empty, like the next seven
	Waiting int64 `json:"waiting"`
	// rows of periodic functions that wait for a later instant, counted up to 10,000; each store has its own
	Periodic  int64 `json:"periodic"`
	Rules     int64 `json:"rules"`      // that were applied; they are to be removed before the store
	Schedules int64 `json:"schedules"`  // counted up to 10,000
	Leaving   int64 `json:"leaving"`    // rows on their way to another store, counted up to 10,000
	Arriving  int64 `json:"arriving"`   // rows on their way from another store, counted up to 10,000
	OpenSlots int64 `json:"open_slots"` // counted up to 10,000
	// events that a destination refused, dead letters, and messages that wait for their time; counted up to 10,000
	Undelivered int64      `json:"undelivered_events"`
	Unread      bool       `json:"unread_events"` // a consumer has not acknowledged the whole outbox
	LastSlot    *time.Time `json:"last_slot"`     // the newest in the ledger; UTC; null: none was run
}

func newCmdList(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List the stores, with their state and what waits in them",
		Long: `List the stores of the settings. A store that is being drained may be removed when its
state is empty. The rows and recurring schedules in a store are counted up to 10,000. So are the
rows that move between it and other stores: some stay on their way if a move has died. A store is
not empty if it has rules, refused events, dead letters or messages that wait for their time. Rows
of periodic functions that wait for a later instant do not count: each store has its own. The list
also has the last slot. The exit code is 1 if a store does not answer.`,
		Example: `  prescient stores list`,
		Args:    cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return withStores(c.Context(), f, func(set *stores.Set) error { return listOfStores(c.Context(), f, set) })
		},
	})
}

func listOfStores(ctx context.Context, f *factory.Factory, set *stores.Set) error {
	chosen := slices.DeleteFunc(slices.Collect(set.All()), func(s *stores.Store) bool {
		return f.Chosen() != "" && s.Name != f.Chosen() && !strings.HasPrefix(s.Name, f.Chosen()+"/")
	})
	list := make([]storeState, len(chosen))
	var looking sync.WaitGroup
	for i, s := range chosen {
		looking.Go(func() { list[i] = stateOf(ctx, s) })
	}
	looking.Wait()
	var down, left []string
	for _, v := range list {
		if v.Error != "" {
			down = append(down, fmt.Sprintf("store %s: %s", v.Name, v.Error))
		}
		if v.Leaving > 0 {
			left = append(left,
				fmt.Sprintf("%s on the way from store %s: if no move goes on, finish it with %s stores move %[2]s --finish",
					counted(v.Leaving).Of("row is", "rows are"), v.Name, f.Self()))
		}
		if v.Since != nil && v.Rules > 0 {
			left = append(left, fmt.Sprintf("store %s has %s, whose checks no move takes: "+
				"remove each with %s rules remove NAME --yes --store %[1]s",
				v.Name, spoken.Count(v.Rules, "rule", "rules"), f.Self()))
		}
		if v.Since != nil && v.Undelivered > 0 {
			left = append(left, fmt.Sprintf("store %s has %s, which no move takes: let the forwarder send them, "+
				"and resend or discard what %s events dead --store %[1]s lists",
				v.Name, counted(v.Undelivered).Of("event that was refused or waits", "events that were refused or wait"),
				f.Self()))
		}
	}
	err := f.Print(list, func() error {
		header := table.Row{
			"STORE", output.Droppable("DATABASE"), "STATE", "WAITING", "SCHEDULES", output.Droppable("LEAVING"),
			output.Droppable("ARRIVING"), "LAST SLOT",
		}
		err := output.Rows(f.Printer, list, header, storeState.row)
		for _, text := range left {
			err = errors.Join(err, f.Lines(""), f.Sentence(text))
		}
		return err
	})
	if err == nil && len(down) > 0 {
		err = errors.New(strings.Join(down, "\n"))
	}
	return err
}

func (v storeState) row() table.Row {
	row := table.Row{v.Name, where(v.Database), v.State}
	if v.Error != "" { // its content is unknown
		return append(row, "", "", "", "", v.LastSlot)
	}
	return append(row, counted(v.Waiting), counted(v.Schedules), counted(v.Leaving), counted(v.Arriving), v.LastSlot)
}

// counted returns the count of a stores.State.
func counted(n int64) ledger.Count { return ledger.Count{N: n, AtLeast: n >= stores.Counted} }

// where is a database and a schema in it.
func where(d view.Database) string {
	name := d.Database
	if name == "" {
		return ""
	}
	return strings.TrimPrefix(d.Host+"/"+name+"."+d.Schema, "/")
}

func stateOf(ctx context.Context, s *stores.Store) storeState {
	v := storeState{Name: s.Name, Database: view.Database{Schema: pgsql.Schema(s.Schema).String()}}
	err := s.Err
	var state stores.State
	if err == nil {
		state, err = s.State(ctx)
	}
	if err == nil {
		var setting pgsql.Setting
		setting, err = pgsql.ReadSetting(ctx, s.DB, pgsql.Schema(s.Schema))
		v.Database.Server = setting.Server
	}
	if err != nil {
		v.State, v.Error = "down", spoken.Error(err.Error())
		if errors.Is(err, pgsql.ErrNotMigrated) {
			v.State = "not migrated"
		}
		return v
	}
	v.State = "active"
	if v.Since, v.By = view.TimeOrNil(s.DrainingSince), s.DrainingBy; v.Since != nil {
		v.State = "draining"
		if state.Empty() {
			v.State = "empty"
		}
	}
	v.Waiting, v.Periodic, v.Rules = state.Waiting, state.Periodic, state.Rules
	v.Schedules, v.Leaving, v.Arriving = state.Schedules, state.Leaving, state.Arriving
	v.OpenSlots, v.Undelivered, v.Unread = state.OpenSlots, state.Undelivered, state.Unread
	v.LastSlot = view.TimeOrNil(state.LastSlot)
	return v
}

func newCmdDrain(f *factory.Factory) *cobra.Command {
	var undo bool
	c := f.WithOutput(&cobra.Command{
		Use:   "drain NAME",
		Short: "Send new rows to other stores, before a store is removed",
		Long: `Mark a store for removal. Applications that route rows by key send new rows to other stores, once they
have read the mark. "stores move" moves its rows out of it, and "rules remove" ends the checks of its rules. Runs go on
over the store until it is empty, which "stores list" shows.`,
		Example: `  prescient stores drain shop && prescient stores move shop
  prescient stores drain shop --undo`,
		Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return withStores(c.Context(), f, func(set *stores.Set) error {
				return drainStore(c.Context(), f, set, args[0], undo)
			})
		},
	})
	c.Flags().BoolVar(&undo, "undo", false, "let it have new rows again; moved rows stay where they are")
	return c
}

// likeApplications follows a command that moves rows.
const likeApplications = "Add --route-by payload:FIELD if a field of the payload chooses the store in your applications"

// drainedStore describes a store for stores drain.
type drainedStore struct {
	Store    string `json:"store"`    // its name
	Draining bool   `json:"draining"` // it gets no new rows
	Changed  bool   `json:"changed"`  // false: it was so before
}

func drainStore(ctx context.Context, f *factory.Factory, set *stores.Set, name string, undo bool) error {
	if err := answers(f, set, name); err != nil {
		return err
	}
	view := drainedStore{Store: name, Draining: !undo}
	mark := set.Drain
	if undo {
		mark = set.Undrain
	}
	var err error
	if view.Changed, err = mark(ctx, name, database.Actor()); err != nil {
		return err
	}
	text := fmt.Sprintf("%s is being drained; move what waits in it with: %s stores move %[1]s. %[3]s", name, f.Self(),
		likeApplications)
	switch {
	case undo && view.Changed:
		text = name + " is no longer drained"
	case undo:
		text = name + " was not being drained: nothing is changed"
	case !view.Changed:
		text = name + " is being drained already"
	}
	return f.Say(view, text)
}

// answers returns an error if the settings do not list a store, or if the stores that its pattern
// stands for cannot be read.
func answers(f *factory.Factory, set *stores.Set, name string) error {
	if _, err := f.FindStore(name); err != nil {
		return err
	}
	if of, _, single := strings.Cut(name, "/"); single && slices.Contains(known(set), of) {
		_, err := set.Get(of)
		return err
	}
	return nil
}

// known are the names of the stores of a set.
func known(set *stores.Set) (names []string) {
	for s := range set.All() {
		names = append(names, s.Name)
	}
	return slices.Clip(names)
}
