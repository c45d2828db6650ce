package multistore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures Pools.
type Config struct {
	List List
	// Options are those of every pool.
	Options []pgsql.Option
	// Open connects to a URL.
	Open func(ctx context.Context, url string, opts ...pgsql.Option) (*sqlx.DB, error)
	// Connect connects to the database of a store, through the given pools.
	Connect func(ctx context.Context, p *Pools, s Store) (*sqlx.DB, error)
	// Watch is started for every pool. Optional.
	Watch func(ctx context.Context, db *sqlx.DB)
}

// Pools holds what several stores share: a pool for each database, and bounds for each server and
// for the process. It is safe for concurrent use. A nil *Pools stands for a single store, which
// shares nothing; only Part, Bounds and Write may be called on it.
type Pools struct {
	cfg     Config
	workers slots.Bound
	writing sync.Mutex // one store at a time writes a file
	opening singleflight.Group

	mu      sync.Mutex
	pools   map[string]*sqlx.DB // by URL
	of      map[*sqlx.DB]*server
	servers map[string]*server // by pgsql.ServerOf
	known   map[string]string  // the names of stores that were found, by URL and schema
}

// server holds what the stores of one server share.
type server struct {
	connections *pgsql.Share
	bounds      slots.Shared
}

// spareConnections are connections of a server for commands that read its clock or its state while
// slots run.
const spareConnections = 2

// New returns Pools without a pool. The caller closes them.
func New(cfg Config) *Pools {
	return &Pools{
		cfg: cfg, workers: make(slots.Bound, cfg.List.Settings.Run.Workers),
		pools: map[string]*sqlx.DB{}, of: map[*sqlx.DB]*server{}, servers: map[string]*server{}, known: map[string]string{},
	}
}

// Part returns the part of a bound that one store may use. It is less than the whole bound, so that
// checks of one store that hang leave room for other stores.
func (p *Pools) Part(bound int) int {
	if p == nil {
		return bound
	}
	return max(1, 3*bound/4)
}

// most returns the largest number of connections to a server.
func (p *Pools) most() int {
	run := p.cfg.List.Settings.Run
	return run.Connections + run.Stores*slots.OwnConnections + spareConnections
}

// server returns the bounds of the server of a URL.
func (p *Pools) server(url string) (*server, error) {
	name, err := pgsql.ServerOf(url)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.servers[name]
	if !known {
		run := p.cfg.List.Settings.Run
		s = &server{pgsql.NewShare(p.most()), slots.Shared{
			Runs: make(slots.Bound, run.Stores), Workers: p.workers, Connections: make(slots.Bound, run.Connections),
		}}
		p.servers[name] = s
	}
	return s, nil
}

// Open returns the pool of a URL. Close closes it.
func (p *Pools) Open(ctx context.Context, url string, opts ...pgsql.Option) (*sqlx.DB, error) {
	db, err, _ := p.opening.Do(url, func() (any, error) {
		p.mu.Lock()
		db := p.pools[url]
		p.mu.Unlock()
		if db != nil {
			return db, nil
		}
		s, err := p.server(url)
		if err != nil {
			return nil, err
		}
		if db, err = p.cfg.Open(ctx, url,
			slices.Concat(opts, p.cfg.Options, []pgsql.Option{pgsql.Shared(s.connections)})...); err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(p.most())
		if p.cfg.Watch != nil {
			go p.cfg.Watch(ctx, db)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pools[url], p.of[db] = db, s
		return db, nil
	})
	if err != nil {
		return nil, err
	}
	return db.(*sqlx.DB), nil
}

// Bounds returns the bounds of a runner of a store, which the stores of its server share.
func (p *Pools) Bounds(db *sqlx.DB) slots.Shared {
	if p == nil {
		return slots.Shared{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[db].bounds
}

// Write calls fn for one store at a time: many stores that wait for the lock of one file would time
// out.
func (p *Pools) Write(fn func() error) error {
	if p != nil {
		p.writing.Lock()
		defer p.writing.Unlock()
	}
	return fn()
}

// Close closes every pool.
func (p *Pools) Close() (err error) {
	for _, db := range p.pools {
		err = errors.Join(err, db.Close())
	}
	return err
}

// All returns the stores of the settings, whatever --store says, with those that patterns stand
// for.
func (p *Pools) All(ctx context.Context) (list []Store) {
	for _, entry := range p.cfg.List.Settings.Stores {
		found, _ := p.find(ctx, entry)
		list = append(list, found...)
	}
	return list
}

// find returns the stores that an entry of the settings stands for. If they cannot be read, or if
// there is none, it returns one store that has the name of the entry and that error. known is false
// if they cannot be read.
func (p *Pools) find(ctx context.Context, entry config.Store) (list []Store, known bool) {
	database := entry.Database(p.cfg.List.Settings)
	names := []string{database.Schema}
	if entry.IsPattern() {
		var err error
		names, err = p.schemas(ctx, Store{Name: entry.Name, Database: database})
		known = err == nil
		if known && len(names) == 0 {
			err = fmt.Errorf("no schema like %s holds the tables: make one with prescient migrate up --store %s/SCHEMA",
				database.Schema, entry.Name)
		}
		if err != nil && p.cfg.List.inShard(entry.Name) {
			return []Store{{Name: entry.Name, Database: database, Err: err}}, known
		}
	}
	for _, schema := range names {
		s := Store{Name: entry.Name, Database: database}
		s.Database.Schema = schema
		if entry.IsPattern() {
			s.Name += "/" + schema
		}
		if first := p.claim(s); first != s.Name {
			s.Err = exit.Usagef("it is store %s, too: a store is listed once", first)
		}
		if p.cfg.List.inShard(s.Name) {
			list = append(list, s)
		}
	}
	return list, known
}

// schemas returns the schemas that a pattern stands for.
func (p *Pools) schemas(ctx context.Context, s Store) ([]string, error) {
	db, err := p.cfg.Connect(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return pgsql.Schemas(ctx, db, s.Database.Schema)
}

// claim returns the store that a schema is known as: the one that the settings name, or else the
// one that was found first.
func (p *Pools) claim(s Store) string {
	where := s.Database.URL.Reveal() + " " + s.Database.Schema
	for _, entry := range p.cfg.List.Settings.Stores {
		if named := entry.Database(p.cfg.List.Settings); !entry.IsPattern() && named.URL.Reveal()+" "+named.Schema == where {
			return entry.Name
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[where] = cmp.Or(p.known[where], s.Name)
	return p.known[where]
}
