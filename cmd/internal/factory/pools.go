package factory

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Pools holds the connections of a command line: a pool for each database. Several stores share
// bounds for each server and for the process. Pools is safe for concurrent use.
type Pools struct {
	// Options are those of every pool.
	Options []pgsql.Option
	// Log gets what is said about a database, which may have several stores.
	Log *slog.Logger

	run     config.Run
	several bool
	workers chan struct{}
	writing sync.Mutex // one store at a time writes a file
	opening singleflight.Group

	mu      sync.Mutex
	opened  map[string]pool    // by URL
	servers map[string]*server // by pg.ServerOf
	known   map[string]string  // the names of stores that were found, by place
	apart   *Pools             // of Factory.Apart; nil: none
	onClose []func()
}

// pool is a pool with the server that it connects to.
type pool struct {
	db *sqlx.DB
	of *server
}

// server holds what several stores on one server share.
type server struct {
	connections *pg.ConnectionLimit
	bounds      slots.Shared
}

// spareConnections are connections of a server for commands that read its clock or its state while
// slots run.
const spareConnections = 2

func newPools(run config.Run, several bool, log *slog.Logger) *Pools {
	return &Pools{
		Log: log, run: run, several: several, workers: make(chan struct{}, run.Workers),
		opened: map[string]pool{}, servers: map[string]*server{}, known: map[string]string{},
	}
}

// apartFrom returns other Pools with the same bounds. Close closes them, too.
func (p *Pools) apartFrom() *Pools {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apart == nil {
		p.apart = newPools(p.run, p.several, p.Log)
	}
	return p.apart
}

// Part returns the part of a bound that one store may use. One of several stores gets less than the
// whole bound, so that its checks that hang leave room for other stores.
func (p *Pools) Part(bound int) int {
	if !p.several {
		return bound
	}
	return max(1, 3*bound/4)
}

// Most returns the largest number of connections to a server.
func (p *Pools) Most() int {
	if !p.several {
		return p.run.Connections + slots.OwnConnections // a run needs these; no other command needs more
	}
	return p.run.Connections + p.run.Stores*slots.OwnConnections + spareConnections
}

// server returns what the stores on the server of a URL share. A single store shares nothing.
func (p *Pools) server(url string) (*server, error) {
	if !p.several {
		return &server{}, nil
	}
	name, err := pg.ServerOf(url)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.servers[name]
	if !known {
		s = &server{pg.NewConnectionLimit(p.Most()), slots.Shared{
			Runs: make(chan struct{}, p.run.Stores), Workers: p.workers, Connections: make(chan struct{}, p.run.Connections),
		}}
		p.servers[name] = s
	}
	return s, nil
}

// Open returns the pool of a URL, which open makes the first time. Close closes it.
func (p *Pools) Open(url string, open func(opts ...pgsql.Option) (*sqlx.DB, error)) (*sqlx.DB, error) {
	db, err, _ := p.opening.Do(url, func() (any, error) {
		p.mu.Lock()
		known := p.opened[url].db
		p.mu.Unlock()
		if known != nil {
			return known, nil
		}
		s, err := p.server(url)
		if err != nil {
			return nil, err
		}
		db, err := open(append([]pgsql.Option{pg.Limited(s.connections)}, p.Options...)...)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.opened[url] = pool{db, s}
		return db, nil
	})
	if err != nil {
		return nil, err
	}
	return db.(*sqlx.DB), nil
}

// Bounds returns the bounds of a runner of a store, which several stores of its server share.
func (p *Pools) Bounds(db *sqlx.DB) slots.Shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range p.opened {
		if pool.db == db {
			return pool.of.bounds
		}
	}
	return slots.Shared{}
}

// Write calls fn for one store at a time: many stores that wait for the lock of one file would time
// out.
func (p *Pools) Write(fn func() error) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return fn()
}

// first returns the first name that was given for the place of a store.
func (p *Pools) first(place, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[place] = cmp.Or(p.known[place], name)
	return p.known[place]
}

// OnClose lets Close call a function before it closes the pools.
func (p *Pools) OnClose(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onClose = append(p.onClose, fn)
}

// close closes every pool.
func (p *Pools) close() (err error) {
	if p == nil {
		return nil
	}
	for _, fn := range p.onClose {
		fn()
	}
	for _, pool := range p.opened {
		err = errors.Join(err, pool.db.Close())
	}
	return errors.Join(err, p.apart.close())
}
