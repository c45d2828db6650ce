package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Each calls fn for each store that the command works on, concurrently, with a Factory for that store
// alone. The output comes in the order of the settings. The worst of the exit codes is that of the
// command. A store that the command works on alone prints as it goes.
func Each(ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error) error {
	if !f.Many() {
		return fn(ctx, f)
	}
	ended := visit(ctx, f, func(ctx context.Context, one *factory.Factory) (e end) {
		e.part = &output.Part{Store: one.Store().Name}
		one.Printer = f.Into(e.part)
		if e.err = one.Store().Err; e.err == nil {
			e.err = fn(ctx, one)
		}
		if ctx.Err() != nil && errors.Is(e.err, context.Canceled) && !errors.Is(e.err, slots.ErrAbandoned) {
			e.err = &exit.Error{Code: exit.Stopped, Err: e.err} // before it had begun
		}
		e.part.Error = explain(ctx, one, e.err)
		return e
	})
	parts, errs, texts := []*output.Part{}, []error{}, []string{}
	for _, e := range ended {
		parts, errs = append(parts, e.part), append(errs, e.err)
		if e.part.Error != "" {
			texts = append(texts, "store "+e.part.Store+": "+e.part.Error)
		}
	}
	if err := f.Join(parts); err != nil {
		return err
	}
	code := exit.Worst(errs)
	switch {
	case code == exit.Done:
		return nil
	case len(texts) == 0:
		return &exit.Error{Code: code}
	}
	return &exit.Error{Code: code, Err: errors.New(strings.Join(texts, "\n"))}
}

// lookTime is how long Look waits for one of several stores. It is longer than watchLocks takes to name the session
// that holds a lock.
const lookTime = 30 * time.Second

// Look is Each for commands that only read. If one of several stores does not answer in time, for example because
// another session has locked a table, that store has an error, and the other stores are printed. A store that the
// command works on alone has no bound.
func Look(ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error) error {
	return Each(ctx, f, within(lookTime, fn))
}

// within bounds the time of a function for one of several stores.
func within(
	most time.Duration, fn func(ctx context.Context, f *factory.Factory) error,
) func(ctx context.Context, f *factory.Factory) error {
	return func(ctx context.Context, f *factory.Factory) error {
		if !f.Store().Several {
			return fn(ctx, f)
		}
		ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("the store has not answered for %s: "+
			"another session may have locked its tables. To wait without a limit, name it alone: %s %s", most,
			f.Self(), strings.TrimPrefix(f.Command(), f.Name+" ")))
		defer cancel()
		err := fn(ctx, f)
		if exit.CodeOf(err) == exit.Failure && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return context.Cause(ctx)
		}
		return err
	}
}

// idTime is how long IDs waits for a store. A store that is slower has an error of its own.
const idTime = 5 * time.Second

// IDs returns the ids of several stores that answer, by name. Two stores with one id are one schema, or one is a copy
// of the other.
func IDs(ctx context.Context, f *factory.Factory) map[string]string {
	type answer struct{ name, id string }
	ids := map[string]string{}
	for _, a := range visit(ctx, f, func(ctx context.Context, f *factory.Factory) answer {
		a := answer{name: f.Store().Name}
		err := within(idTime, func(ctx context.Context, f *factory.Factory) error {
			db, err := Connect(ctx, f)
			if err != nil {
				return err
			}
			return pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
				var since, by, version any
				return pg.One(ctx, tx, pg.StoreRead.In(f.Schema()), nil, &a.id, &since, &by, &version)
			})
		})(ctx, f)
		if err != nil {
			a.id = ""
		}
		return a
	}) {
		if a.id != "" {
			ids[a.name] = a.id
		}
	}
	return ids
}

// end is how a command has ended in one store of several.
type end struct {
	part *output.Part
	err  error
}

// explain returns the text of an error with advice, or "" if there is nothing to print.
func explain(ctx context.Context, f *factory.Factory, err error) string {
	if silent, ok := errors.AsType[*exit.Error](err); err == nil || ok && silent.Err == nil {
		return ""
	}
	return f.Named(spoken.Error(err.Error()) + Advice(ctx, f, err))
}

// visit calls fn for each store of several, concurrently, and returns the results in the order of the
// settings. A server that is down delays neither another server nor the search for its schemas.
func visit[T any](ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) T) []T {
	entries := f.Entries()
	results := make([][]T, len(entries))
	var work sync.WaitGroup
	for i, entry := range entries {
		work.Go(func() {
			list, _ := find(ctx, f, entry)
			results[i] = make([]T, len(list))
			for j, s := range list {
				s.Repeats = i+j > 0
				work.Go(func() { results[i][j] = fn(ctx, f.On(s)) })
			}
		})
	}
	work.Wait()
	return slices.Concat(results...)
}

// All returns the stores of the settings, whatever --store says, with those that patterns stand for.
func All(ctx context.Context, f *factory.Factory) (list []factory.Store) {
	for _, entry := range f.Config().Stores {
		found, _ := find(ctx, f, entry)
		list = append(list, found...)
	}
	return list
}

// find returns the stores that an entry of the settings names. If it cannot read them, or finds no
// store, it returns one store that has the name of the entry and that error. known is false if it
// cannot read them.
func find(ctx context.Context, f *factory.Factory, entry config.Store) (list []factory.Store, known bool) {
	whole := factory.Store{
		Name: entry.Name, Database: entry.Database(f.Config()), Source: entry.Source, Owner: entry.Owner,
	}
	names := []string{whole.Database.Schema}
	if entry.IsPattern() {
		db, err := Connect(ctx, f.On(whole))
		if err == nil {
			names, err = pg.Schemas(ctx, db, whole.Database.Schema)
		}
		if known = err == nil; known && len(names) == 0 {
			err = fmt.Errorf("no schema like %s holds the tables: make one with prescient migrate up --store %s/SCHEMA",
				whole.Database.Schema, entry.Name)
		}
		if whole.Err = err; err != nil {
			if f.InShard(entry.Name) {
				list = []factory.Store{whole}
			}
			return list, known
		}
	}
	for _, schema := range names {
		s := whole
		s.Database.Schema = schema
		if entry.IsPattern() {
			s.Name, s.Matched = s.Name+"/"+schema, true
			s.Beside = names
		}
		if first := f.KnownAs(s); first != s.Name {
			s.Err = exit.Usagef("it is store %s, too: a store is listed once", first)
		}
		if f.InShard(s.Name) {
			list = append(list, s)
		}
	}
	return list, known
}

// Width asks the database for the width of its slots, and returns the name of the database, too.
// Of several stores that answer it returns the smallest width, and the first store that has it: at most
// of the runs, a store with wider slots has nothing to do. If no store answers, the error says why.
func Width(ctx context.Context, f *factory.Factory) (width time.Duration, from string, err error) {
	if !f.Many() {
		err = With(ctx, f, func(_ *sqlx.DB, setting pgsql.Setting) error {
			view, err := NewView(f, setting)
			width, from = setting.Grid.Width(), "the database "+strings.Map(plain.Printable, view.String())
			return err
		})
		return width, from, err
	}
	type answer struct {
		width time.Duration
		store string
		err   error
	}
	for _, a := range visit(ctx, f, func(ctx context.Context, f *factory.Factory) answer {
		a := answer{store: "store " + f.Store().Name}
		if err := With(ctx, f, func(_ *sqlx.DB, setting pgsql.Setting) error {
			a.width = setting.Grid.Width()
			return nil
		}); err != nil {
			a.err = fmt.Errorf("%s: %s", a.store, explain(ctx, f, err))
		}
		return a
	}) {
		err = errors.Join(err, a.err)
		if a.width > 0 && (width == 0 || a.width < width) {
			width, from = a.width, a.store
		}
	}
	if width > 0 && err != nil {
		f.Log().WarnContext(ctx, "not every store was asked for the width of its slots", "error", err)
		err = nil
	}
	return width, from, err
}
