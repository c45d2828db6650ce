// Package multistore has the stores that the settings list: which of them a command works on, their
// connection pools and bounds, one visit of each, and one run of each that goes on. It knows no
// command.
package multistore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Store is a store that a command works on: a schema in a database.
type Store struct {
	Name     string
	Database config.Database
	Err      error // why the store cannot be found or used; nil: it can
	Repeats  bool  // it is not the first one of a visit
}

// Scope says which stores a command works on. The zero value is the database of the settings.
type Scope struct {
	Chosen  string // the value of --store
	Store   string // the name of the one store; empty: the database of the settings, or several stores
	Many    bool   // the command works on several stores
	Sharded bool   // only the stores of run.shard count
	Repeats bool   // of one store among several: it is not the first
	Pools   *Pools // of one store among several; nil otherwise
}

// One returns the scope of a store among several.
func (s Scope) One(store Store, pools *Pools) Scope {
	s.Store, s.Many, s.Repeats, s.Pools = store.Name, false, store.Repeats, pools
	return s
}

// List is the stores of the settings, as a command sees them.
type List struct {
	Settings config.Config
	Scope    Scope
}

// Choose returns the one store that --store names, or many if the command works on several stores.
// Both are zero if it works on the database of the settings. elsewhere says that other flags name a
// database; all says that the command needs every store.
func (l List) Choose(elsewhere, all bool) (one Store, many bool, err error) {
	chosen, stores := l.Scope.Chosen, l.Settings.Stores
	shard := l.Settings.Run.Shard
	switch {
	case elsewhere && chosen != "":
		return Store{}, false, exit.Usagef("--store %s: it says where the store is, and so do --schema and --database-url",
			chosen)
	case elsewhere:
		return Store{}, false, nil
	case len(stores) == 0 && chosen != "":
		return Store{}, false, exit.Usagef("--store %s: the settings list no stores: "+
			"add it to stores in a configuration file", chosen)
	case len(stores) == 0 && shard != "" && l.Scope.Sharded:
		return Store{}, false, exit.Usagef("run.shard %s: it is a shard of the stores, and the settings list none: "+
			"add them to a configuration file", shard)
	case len(stores) == 0:
		return Store{}, false, nil
	case chosen == "":
		return Store{}, true, nil
	}
	one, pattern, err := l.Find(chosen)
	if err != nil {
		return Store{}, true, exit.Usagef("--store %w", err)
	}
	if pattern || all {
		return Store{}, true, nil
	}
	return one, false, nil
}

// Find returns the store with a name, which may be one that a pattern of the settings stands for.
// pattern says that the name is that of a pattern, which stands for several stores.
func (l List) Find(name string) (one Store, pattern bool, err error) {
	of, schema, single := strings.Cut(name, "/")
	if _, err := pgsql.ParseSchema(schema); err != nil {
		return Store{}, false, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range l.Settings.Stores {
		database := s.Database(l.Settings)
		switch {
		case of != s.Name || single && (schema == "" || !pgsql.IsLike(schema, s.Schema)):
		case schema != "":
			database.Schema = schema
			fallthrough
		case !s.IsPattern():
			return Store{Name: name, Database: database}, false, nil
		default:
			return Store{}, true, nil
		}
	}
	return Store{}, false, fmt.Errorf("%s: there is none; the settings list %s", name, l.Names())
}

// FindOne returns the store with a name, which the settings list or one of their patterns stands
// for. Other names are errors of usage.
func (l List) FindOne(name string) (Store, error) {
	s, pattern, err := l.Find(name)
	if err != nil {
		return s, exit.Usagef("store %w; add it to stores in the configuration file first", err)
	}
	if pattern {
		return s, exit.Usagef("store %s stands for several: name one of them, such as %s/SCHEMA", name, name)
	}
	return s, nil
}

// Names returns the stores of the settings, for messages.
func (l List) Names() string {
	var names []string
	for _, s := range l.Settings.Stores {
		name := s.Name
		if s.IsPattern() {
			name += "/" + s.Schema
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// ErrMany returns the error of a command for one store that is not told which one.
func (l List) ErrMany() error {
	return exit.Usagef("the settings list several stores, and this command works on one: name it with --store, one of %s",
		l.Names())
}

// entries returns the entries of the settings, or the one that --store names.
func (l List) entries() (list []config.Store) {
	for _, s := range l.Settings.Stores {
		if l.Scope.Chosen == "" || l.Scope.Chosen == s.Name {
			list = append(list, s)
		}
	}
	return list
}

// EntryNames returns the names of the entries that the command works on. That of a pattern is not the
// name of a store: its stores may belong to the shard of run.shard, whatever its own name.
func (l List) EntryNames() (names []string) {
	for _, entry := range l.entries() {
		if entry.IsPattern() || l.inShard(entry.Name) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// inShard reports whether a store belongs to the shard of run.shard. Only commands that run slots
// divide the stores. A command that looks at rows or moves them needs all stores.
func (l List) inShard(store string) bool {
	number, of, divided := strings.Cut(l.Settings.Run.Shard, "/")
	if !divided || !l.Scope.Sharded {
		return true
	}
	i, err := strconv.ParseInt(number, 10, 64) // config has checked it
	n, wrong := strconv.ParseInt(of, 10, 64)
	return err == nil && wrong == nil && grid.Hash(store)%n == i
}
