package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// store is one that a command works on.
type store struct {
	name     string
	database config.Database
	err      error // why nobody can tell which it is
}

// overAll tells of a command whose work is done by over.
func overAll(c *cobra.Command) *cobra.Command {
	c.Long += "\n\nWhere the settings list stores it works on all of them, or on those of --store, beside each other."
	return c
}

// over calls fn for the database of the settings or, where these list stores, for each of them, beside each other, with an App
// that knows no other. What these print comes in the order of the stores, and the worst of their exit codes is that of the command.
//
// opts are how the databases are connected to, since stores share pools.
func (a *App) over(ctx context.Context, fn func(ctx context.Context, a *App) error, opts ...pgsql.Option) error {
	if !a.many {
		return fn(ctx, a)
	}
	parts, err := a.visitAll(ctx, fn, opts...)
	if err != nil {
		return err
	}
	return a.join(parts)
}

// visitAll calls fn for each store, and returns what came of them in the order of the settings.
func (a *App) visitAll(ctx context.Context, fn func(ctx context.Context, a *App) error, opts ...pgsql.Option) (_ []part, err error) {
	f := newFleet(a, opts...)
	f.watch = a.watchLocks
	defer func() { err = errors.Join(err, f.close()) }()
	entries := a.chosenStores()
	parts := make([][]part, len(entries))
	var work sync.WaitGroup
	for i, entry := range entries {
		work.Go(func() { // a server that is down holds up no other, nor finding out which schemas that has
			list, _ := f.find(ctx, a, entry)
			parts[i] = make([]part, len(list))
			for j, s := range list {
				work.Go(func() { parts[i][j] = f.visit(ctx, a, s, i+j > 0, fn) })
			}
		})
	}
	work.Wait()
	return slices.Concat(parts...), nil
}

// part is what came of one store.
type part struct {
	store  string
	answer any // printed as JSON
	text   bytes.Buffer
	err    error
	what   string // of err, with what to do
}

// visit calls fn for one store; repeats: it is not the first.
func (f *fleet) visit(ctx context.Context, a *App, s store, repeats bool, fn func(ctx context.Context, a *App) error) (p part) {
	p.store, p.err = s.name, s.err
	if p.err == nil {
		a = a.of(s, f)
		a.Out, a.answer, a.repeats = &p.text, &p.answer, repeats
		p.err = fn(ctx, a)
	}
	if ctx.Err() != nil && errors.Is(p.err, context.Canceled) && !errors.Is(p.err, slots.ErrAbandoned) {
		p.err = &ExitError{Code: Stopped, Err: p.err} // before it had begun
	}
	if exit, ok := errors.AsType[*ExitError](p.err); p.err != nil && (!ok || exit.Err != nil) {
		p.what = a.named(p.err.Error() + hint(p.err) + a.refusal(p.err))
	}
	return p
}

// of returns an App for one store of several.
func (a *App) of(s store, f *fleet) *App {
	one := *a
	one.enter(s)
	one.many, one.fleet, one.log = false, f, a.log.With("store", s.name)
	return &one
}

// enter makes a store the one that a works on.
func (a *App) enter(s store) {
	a.store = s.name
	a.config.Config.Database = s.database
	a.where += " --store " + s.name
}

// storeView is what a command that works on all stores tells of one, as JSON.
type storeView struct {
	Store  string `json:"store"`
	Error  string `json:"error"`  // empty: none
	Result any    `json:"result"` // what the command prints for a single store; null: nothing
}

// join prints what came of the stores, and returns the worst that happened.
func (a *App) join(parts []part) error {
	views := []storeView{}
	codes := []Code{Done} // of a part that has no store, too
	var texts []string
	for i := range parts {
		p := &parts[i]
		views = append(views, storeView{p.store, p.what, p.answer})
		codes = append(codes, codeOf(p.err))
		if p.what != "" {
			texts = append(texts, "store "+p.store+": "+p.what)
		}
	}
	if err := a.print(views, func() error { return printParts(a, parts) }); err != nil {
		return err
	}
	code := slices.MinFunc(codes, func(a, b Code) int { return cmp.Compare(slices.Index(worst, a), slices.Index(worst, b)) })
	if code == Done {
		return nil
	}
	exit := &ExitError{Code: code}
	if len(texts) > 0 {
		exit.Err = errors.New(strings.Join(texts, "\n"))
	}
	return exit
}

// worst is the order of what is told of several stores: the worst first.
var worst = []Code{Failure, Stopped, Usage, Found, Done}

// printParts prints what the stores printed, each below its name.
func printParts(a *App, parts []part) error {
	var err error
	first := true
	for i := range parts {
		if parts[i].text.Len() == 0 {
			continue
		}
		if !first {
			err = a.lines("")
		}
		first = false
		err = errors.Join(err, a.lines("store "+parts[i].store+":"), a.lines(strings.TrimSuffix(parts[i].text.String(), "\n")))
	}
	return err
}

// chooseStores finds out whether a command works on one store or on many. --schema and --database-url name a store that is none of the list.
func (a *App) chooseStores(c *cobra.Command) error {
	a.store, a.many, a.divides = "", false, c.Flags().Lookup("shard") != nil
	stores := a.Config().Stores
	if f := c.Flags(); f.Changed("schema") || f.Changed("database-url") {
		if a.chosen != "" {
			return usagef("--store %s: it says where the store is, and so do --schema and --database-url", a.chosen)
		}
		return nil
	}
	if len(stores) == 0 {
		if a.chosen != "" {
			return usagef("--store %s: the settings list no stores: add it to stores in a configuration file", a.chosen)
		}
		if part := a.Config().Run.Shard; part != "" && a.divides {
			return usagef("run.shard %s: it is a shard of the stores, and the settings list none: add them to a configuration file", part)
		}
		return nil
	}
	a.many = true
	if a.chosen == "" {
		return nil
	}
	one, all, err := a.findStore(a.chosen)
	if err != nil {
		return usagef("--store %w", err)
	}
	if !all && c.Annotations[ofStores] == "" {
		a.enter(one)
		a.many = false
	}
	return nil
}

// findStore returns the store with a name, which may be one that a pattern of the settings stands for; all: it is the name of a pattern.
func (a *App) findStore(name string) (one store, all bool, err error) {
	of, schema, single := strings.Cut(name, "/")
	if _, err := pgsql.ParseSchema(schema); err != nil {
		return store{}, false, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range a.Config().Stores {
		database := s.Database(a.Config())
		switch {
		case of != s.Name || single && (schema == "" || !pgsql.IsLike(schema, s.Schema)):
		case schema != "":
			database.Schema = schema
			fallthrough
		case !s.IsPattern():
			return store{name: name, database: database}, false, nil
		default:
			return store{}, true, nil
		}
	}
	return store{}, false, fmt.Errorf("%s: there is none; the settings list %s", name, a.storeNames())
}

// storeNames are the stores of the settings, for messages.
func (a *App) storeNames() string {
	var names []string
	for _, s := range a.Config().Stores {
		name := s.Name
		if s.IsPattern() {
			name += "/" + s.Schema
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// errManyStores is the error of a command for one store that does not know which.
func (a *App) errManyStores() error {
	return usagef("the settings list several stores, and this command works on one: name it with --store, one of %s", a.storeNames())
}

// chosenStores are the stores of the settings, or those of --store.
func (a *App) chosenStores() (list []config.Store) {
	for _, s := range a.Config().Stores {
		if a.chosen == "" || a.chosen == s.Name {
			list = append(list, s)
		}
	}
	return list
}

// find returns the stores that an entry of the settings stands for. Where nobody can tell which those are, or there is none, that is
// the error of one with the name of the entry; known is false in the first case.
func (f *fleet) find(ctx context.Context, a *App, entry config.Store) (list []store, known bool) {
	database := entry.Database(a.Config())
	names := []string{database.Schema}
	if entry.IsPattern() {
		var err error
		names, err = f.schemas(ctx, a, store{entry.Name, database, nil})
		known = err == nil
		if known && len(names) == 0 {
			err = fmt.Errorf("no schema like %s holds the tables: make one with prescient migrate up --store %s/SCHEMA", database.Schema, entry.Name)
		}
		if err != nil && a.hasPart(entry.Name) {
			return []store{{entry.Name, database, err}}, known
		}
	}
	for _, schema := range names {
		s := store{name: entry.Name, database: database}
		s.database.Schema = schema
		if entry.IsPattern() {
			s.name += "/" + schema
		}
		if first := f.claim(a, s); first != s.name {
			s.err = usagef("it is store %s, too: a store is listed once", first)
		}
		if a.hasPart(s.name) {
			list = append(list, s)
		}
	}
	return list, known
}

// hasPart tells whether a store is of the shard that run.shard names. That is for who runs slots: whoever looks, or moves rows, needs them all.
func (a *App) hasPart(store string) bool {
	number, of, divided := strings.Cut(a.Config().Run.Shard, "/")
	if !divided || !a.divides {
		return true
	}
	i, err := strconv.ParseInt(number, 10, 64) // config has checked it
	n, wrong := strconv.ParseInt(of, 10, 64)
	return err == nil && wrong == nil && grid.Hash(store)%n == i
}

// schemas returns those that a pattern stands for.
func (f *fleet) schemas(ctx context.Context, a *App, s store) ([]string, error) {
	db, err := a.of(s, f).connect(ctx)
	if err != nil {
		return nil, err
	}
	return pgsql.Schemas(ctx, db, s.database.Schema)
}

// claim returns the store that a schema is known as: the one that the settings name, or else the one that was found first.
func (f *fleet) claim(a *App, s store) string {
	where := s.database.URL.Reveal() + " " + s.database.Schema
	for _, entry := range a.Config().Stores {
		if named := entry.Database(a.Config()); !entry.IsPattern() && named.URL.Reveal()+" "+named.Schema == where {
			return entry.Name
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[where] = cmp.Or(f.known[where], s.name)
	return f.known[where]
}
