package factory

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Store is a store that a command works on: a schema in a database.
type Store struct {
	Name     string // empty: the database of the settings
	Database config.Database
	Source   string   // of its events; empty: that of the settings
	Matched  bool     // a pattern stands for it
	Owner    string   // a role that may own its schema, if Matched; empty: the settings name none
	Beside   []string // the schemas of its pattern, and its own; empty: the database was not asked for them
	Several  bool     // the command works on other stores, too
	Repeats  bool     // it is not the first of several; what concerns the machine is done for the first
	Err      error    // why a command cannot work on it; nil: it can
}

// Own returns the name of one of several stores, or "" for a store that the command works on alone.
func (s Store) Own() string {
	if s.Several {
		return s.Name
	}
	return ""
}

// storesFlag adds --store.
func (f *Factory) storesFlag(fs *pflag.FlagSet) {
	fs.Var((*chosenFlag)(&f.chosen), "store",
		"work only on the store with this `NAME`, or on the stores of a pattern; see stores in the configuration file")
}

// chosenFlag is the value of --store. It refuses a second store, because a command works on one store or on all. It
// refuses an empty name: that of a shell variable without a value would be all stores.
type chosenFlag string

func (c *chosenFlag) String() string { return string(*c) }

func (c *chosenFlag) Type() string { return "string" }

func (c *chosenFlag) Set(name string) error {
	if name == "" {
		return cli.ErrEmpty
	}
	if first := string(*c); first != "" && first != name {
		return fmt.Errorf("it is given twice, and %s is the first: repeat the command with --store %s, "+
			"or leave out --store for all stores if the command works on several",
			spoken.Word(first), spoken.Word(name))
	}
	*c = chosenFlag(name)
	return nil
}

// Store returns the store that the command works on. If there are several, it has an error; see
// database.Each.
func (f *Factory) Store() Store { return f.store }

// Many reports whether the command works on several stores, and f is for none of them.
func (f *Factory) Many() bool { return f.many }

// Chosen returns the value of --store.
func (f *Factory) Chosen() string { return f.chosen }

// On returns a Factory for one store of several.
func (f *Factory) On(s Store) *Factory {
	one := *f
	one.log = f.log.With("store", s.Name)
	s.Several = true
	one.enter(s)
	return &one
}

// Apart returns a Factory for the same store, with connections of its own.
func (f *Factory) Apart() *Factory {
	one := *f
	one.pools = f.pools.apartFrom()
	return &one
}

// enter makes a store the one that f works on.
func (f *Factory) enter(s Store) {
	f.store, f.many = s, false
	f.loaded.Config.Database = s.Database
	f.loaded.Config.Events.Source = cmp.Or(s.Source, f.loaded.Config.Events.Source)
	f.where += " --store " + s.Name
}

// chooseStores finds out whether a command works on one store or on several.
func (f *Factory) chooseStores(c *cobra.Command) error {
	f.sharded = c.Flags().Lookup("shard") != nil
	elsewhere := c.Flags().Changed("schema") || c.Flags().Changed("database-url")
	stores, shard := f.Config().Stores, f.Config().Run.Shard
	switch {
	case elsewhere && f.chosen != "":
		return exit.Usagef("--store %s: it says where the store is, and so do --schema and --database-url", f.chosen)
	case elsewhere:
		return nil
	case len(stores) == 0 && f.chosen != "":
		return exit.Usagef("--store %s: the settings list no stores: add it to stores in a configuration file", f.chosen)
	case len(stores) == 0 && shard != "" && f.sharded:
		return exit.Usagef("run.shard %s: it is a shard of the stores, and the settings list none: "+
			"add them to a configuration file", shard)
	case len(stores) == 0:
		return nil
	}
	f.many, f.store.Err = true, exit.Usagef("the settings list several stores, and this command works on one: "+
		"name it with --store, one of %s", f.storeNames())
	if f.chosen == "" {
		return nil
	}
	one, pattern, err := f.findStore(f.chosen)
	switch {
	case err != nil:
		return exit.Usagef("--store %w", err)
	case !pattern && c.Annotations[everyStore] == "":
		f.enter(one)
	}
	return nil
}

// FindStore returns the store with a name, which the settings list or one of their patterns stands
// for. Other names are errors of usage.
func (f *Factory) FindStore(name string) (Store, error) {
	s, pattern, err := f.findStore(name)
	if err != nil {
		return s, exit.Usagef("store %w; add it to stores in the configuration file first", err)
	}
	if pattern {
		return s, exit.Usagef("store %s stands for several: name one of them, such as %s/SCHEMA", name, name)
	}
	return s, nil
}

// findStore returns the store with a name. pattern says that the name is that of a pattern, which
// stands for several stores.
func (f *Factory) findStore(name string) (one Store, pattern bool, err error) {
	of, schema, single := strings.Cut(name, "/")
	if _, err := pgsql.ParseSchema(schema); err != nil {
		return Store{}, false, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range f.Config().Stores {
		database := s.Database(f.Config())
		switch {
		case of != s.Name || single && (schema == "" || !pg.IsLike(schema, s.Schema)):
		case schema != "":
			database.Schema = schema
			fallthrough
		case !s.IsPattern():
			return Store{
				Name: name, Database: database, Source: s.Source, Matched: s.IsPattern(), Owner: s.Owner,
			}, false, nil
		default:
			return Store{}, true, nil
		}
	}
	return Store{}, false, fmt.Errorf("%s: there is none; the settings list %s", name, f.storeNames())
}

// storeNames returns the stores of the settings, for messages.
func (f *Factory) storeNames() string {
	var names []string
	for _, s := range f.Config().Stores {
		name := s.Name
		if s.IsPattern() {
			name += "/" + s.Schema
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Stores returns the names of all stores of the settings. For those of a pattern it returns NAME/, or the name of each
// if f works on one of them and the database was asked.
func (f *Factory) Stores() (names []string) {
	own, _, _ := strings.Cut(f.store.Name, "/")
	for _, s := range f.Config().Stores {
		if !s.IsPattern() {
			names = append(names, s.Name)
			continue
		}
		if s.Name != own || len(f.store.Beside) == 0 {
			names = append(names, s.Name+"/")
			continue
		}
		for _, schema := range f.store.Beside {
			names = append(names, s.Name+"/"+schema)
		}
	}
	return names
}

// Entries returns the stores of the settings, or the one that --store names.
func (f *Factory) Entries() (list []config.Store) {
	for _, s := range f.Config().Stores {
		if f.chosen == "" || f.chosen == s.Name {
			list = append(list, s)
		}
	}
	return list
}

// InShard reports whether a store belongs to the shard of run.shard. Only commands that run slots
// divide the stores. A command that looks at rows or moves them needs all stores.
func (f *Factory) InShard(store string) bool {
	number, of, divided := strings.Cut(f.Config().Run.Shard, "/")
	if !divided || !f.sharded {
		return true
	}
	i, err := strconv.ParseInt(number, 10, 64) // config has checked it
	n, wrong := strconv.ParseInt(of, 10, 64)
	return err == nil && wrong == nil && grid.Hash(store)%n == i
}

// KnownAs returns the name of the store of a schema: the one that the settings name, or else the one
// that was found first.
func (f *Factory) KnownAs(s Store) string {
	place := func(d config.Database) string { return d.URL.Reveal() + " " + d.Schema }
	for _, entry := range f.Config().Stores {
		if !entry.IsPattern() && place(entry.Database(f.Config())) == place(s.Database) {
			return entry.Name
		}
	}
	return f.pools.first(place(s.Database), s.Name)
}
