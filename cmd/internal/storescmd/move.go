package storescmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs/stores"
)

type moveOptions struct {
	from    string
	to      []string
	routeBy string
	finish  bool
}

func newCmdMove(f *factory.Factory) *cobra.Command {
	var o moveOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "move STORE [TO...]",
		Short: "Move waiting rows of a store to other stores, while runs and applications go on",
		Long: `Move rows and recurring schedules of a store to other stores. A key chooses the store of each, as
applications choose it with Route. If the store is being drained, all of them move. Otherwise those
move that now belong to a store that was added. If stores are named after the first one, rows move
only to these: all rows of a store that is being drained, and otherwise those that belong there.

Runs and applications go on. A row keeps its history of changes and its slot. If the new store has no
such slot, or the slot has begun, the row gets the next one. It never runs twice.

Rows whose slots have begun or begin within a minute are left to the runs of their store: repeat the
command after those runs. With slots of less than two minutes, it is half their width instead of a
minute. Checks of rules stay with their tables, and each store keeps its own row of each periodic
function. If a key already waits in the other store, the waiting row stays unchanged, and the row that
arrives ends as replaced.

The command first finishes an earlier move that has died. With --finish it does nothing else.`,
		Example: `  prescient stores move shop
  prescient stores move shop north south --route-by payload:tenant
  prescient stores move shop --finish`,
		Args: cli.AtLeast("STORE"),
		RunE: func(c *cobra.Command, args []string) error {
			o.from, o.to = args[0], args[1:]
			return withStores(c.Context(), f, func(set *stores.Set) error { return moveRows(c.Context(), f, set, o) })
		},
	})
	c.Flags().StringVar(&o.routeBy, "route-by", "entity",
		"`WHAT` chooses the store of a row, as in the applications: entity, for its entity key, or payload:FIELD; "+
			"the id of a schedule chooses its store")
	c.Flags().BoolVar(&o.finish, "finish", false, "only finish an earlier move that has died: what it had begun to move")
	c.MarkFlagsMutuallyExclusive("finish", "route-by")
	return c
}

// movedView is stores.Moved as JSON.
type movedView struct {
	Store     string      `json:"store"`     // that the rows left
	Finished  int64       `json:"finished"`  // rows of an earlier move that have arrived now
	Rows      int64       `json:"rows"`      // that were moved
	Schedules int64       `json:"schedules"` // that were moved
	To        []movedInto `json:"to"`
	Replaced  int64       `json:"replaced"`  // rows whose key waited in the other store already
	Cancelled int64       `json:"cancelled"` // rows that were cancelled on their way
	Keyless   int64       `json:"keyless"`   // rows whose payload lacks the field that chooses a store; they stay
	// rows that stay, also those of rules and periodic functions, counted up to 10,000; null: the store could not be asked
	Left *int64 `json:"left"`
}

// movedInto counts what one store has got.
type movedInto struct {
	Store  string   `json:"store"`
	Moved  int64    `json:"moved"`  // rows and schedules
	Paused []string `json:"paused"` // jobs that were paused in it
}

func moveRows(ctx context.Context, f *factory.Factory, set *stores.Set, o moveOptions) error {
	field, byField := strings.CutPrefix(o.routeBy, "payload:")
	if !byField && o.routeBy != "entity" || byField && field == "" {
		return exit.Usagef("--route-by %s: must be entity or payload:FIELD", o.routeBy)
	}
	if o.finish && len(o.to) > 0 {
		return exit.Usagef("--finish moves nothing else: leave out %s", strings.Join(o.to, " "))
	}
	for _, name := range append([]string{o.from}, o.to...) {
		if err := answers(f, set, name); err != nil {
			return err
		}
	}
	if !o.finish {
		if err := requirePatterns(f, set, o); err != nil {
			return err
		}
	}
	what := stores.Move{From: o.from, To: o.to, Finish: o.finish, By: database.Actor()}
	if byField {
		what.Field = field
	}
	moved, err := set.Move(ctx, what)
	v := movedView{
		Store: o.from, Finished: moved.Finished, Rows: moved.Rows, Schedules: moved.Schedules, To: []movedInto{},
		Replaced:  moved.Replaced,
		Cancelled: moved.Cancelled, Keyless: moved.Keyless,
	}
	if moved.Left >= 0 {
		v.Left = &moved.Left
	}
	for s := range set.All() {
		if into := (movedInto{
			s.Name, moved.To[s.Name], append([]string{}, moved.Paused[s.Name]...),
		}); into.Moved > 0 || len(into.Paused) > 0 {
			v.To = append(v.To, into)
		}
	}
	if err != nil && v.Left == nil && v.Finished == 0 && len(v.To) == 0 {
		return err // nothing was done
	}
	return errors.Join(err, f.Print(v, func() error { return printMoved(f, v) }))
}

// requirePatterns returns an error if it is unknown which stores a pattern stands for, because keys choose among them.
// Rows of a store that is being drained do not choose if target stores are named.
func requirePatterns(f *factory.Factory, set *stores.Set, o moveOptions) error {
	from, err := set.Get(o.from)
	if err != nil {
		return err
	}
	draining := !from.DrainingSince.IsZero()
	if draining && len(o.to) > 0 {
		return nil
	}
	for _, s := range f.Config().Stores {
		if s.IsPattern() && slices.Contains(known(set), s.Name) {
			_, err := set.Get(s.Name)
			err = fmt.Errorf("cannot find which stores %s stands for, and so where rows belong: %w", s.Name, err)
			if draining {
				err = fmt.Errorf("%w; or name the target stores", err)
			}
			return err
		}
	}
	return nil
}

func printMoved(f *factory.Factory, v movedView) error {
	rows := []table.Row{{"rows moved", v.Rows}, {"schedules moved", v.Schedules}}
	for _, to := range v.To {
		rows = append(rows, table.Row{"  to " + to.Store, to.Moved})
	}
	for _, more := range []struct {
		label string
		n     int64
	}{
		{"finished of an earlier move", v.Finished},
		{"replaced, since the key waits there already", v.Replaced},
		{"cancelled on their way", v.Cancelled},
		{"left for want of the field", v.Keyless},
	} {
		if more.n > 0 {
			rows = append(rows, table.Row{more.label, more.n})
		}
	}
	if v.Left != nil {
		rows = append(rows, table.Row{"left in " + v.Store, counted(*v.Left)})
	}
	err := f.Table(nil, rows...)
	for _, to := range v.To {
		if len(to.Paused) > 0 {
			err = errors.Join(err,
				f.Sentence(fmt.Sprintf("paused in %s, as in %s: %s", to.Store, v.Store, strings.Join(to.Paused, ", "))))
		}
	}
	return err
}
