package cmd

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// fleet is what a command that works on several stores at once has for all of them: a pool for each database, and bounds for each
// server and for the process.
type fleet struct {
	connections, stores int // run.connections, run.stores
	workers             slots.Bound
	opts                []pgsql.Option                         // of every pool
	watch               func(ctx context.Context, db *sqlx.DB) // every pool; may be nil

	writing sync.Mutex // a file for all
	opening singleflight.Group
	mu      sync.Mutex
	pools   map[string]*sqlx.DB // by URL
	of      map[*sqlx.DB]*server
	servers map[string]*server // by pgsql.ServerOf
	known   map[string]string  // names of stores that were found, by where they are
}

// server is what stores on one server share.
type server struct {
	connections *pgsql.Share
	bounds      slots.Shared
}

// spareConnections are those of a server for who asks for the time and looks what is wrong, while its slots are run.
const spareConnections = 2

func newFleet(a *App, opts ...pgsql.Option) *fleet {
	run := a.Config().Run
	return &fleet{
		connections: run.Connections, stores: run.Stores, workers: make(slots.Bound, run.Workers), opts: opts,
		pools: map[string]*sqlx.DB{}, of: map[*sqlx.DB]*server{}, servers: map[string]*server{}, known: map[string]string{},
	}
}

// part is what one store may have of a bound: less than all of it, so that checks of one that hang leave some to the others.
func (f *fleet) part(bound int) int {
	if f == nil {
		return bound
	}
	return max(1, 3*bound/4)
}

// most is how many connections there are to a server.
func (f *fleet) most() int {
	return f.connections + f.stores*slots.OwnConnections + spareConnections
}

// server returns the bounds of the server of a URL.
func (f *fleet) server(url string) (*server, error) {
	name, err := pgsql.ServerOf(url)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, known := f.servers[name]
	if !known {
		s = &server{pgsql.NewShare(f.most()), slots.Shared{
			Runs: make(slots.Bound, f.stores), Workers: f.workers, Connections: make(slots.Bound, f.connections),
		}}
		f.servers[name] = s
	}
	return s, nil
}

// open returns the pool of a URL, which the fleet closes.
func (f *fleet) open(ctx context.Context, url string, opts ...pgsql.Option) (*sqlx.DB, error) {
	db, err, _ := f.opening.Do(url, func() (any, error) {
		f.mu.Lock()
		db := f.pools[url]
		f.mu.Unlock()
		if db != nil {
			return db, nil
		}
		s, err := f.server(url)
		if err != nil {
			return nil, err
		}
		if db, err = openURL(ctx, url, slices.Concat(opts, f.opts, []pgsql.Option{pgsql.Shared(s.connections)})...); err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(f.most())
		if f.watch != nil {
			go f.watch(ctx, db)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pools[url], f.of[db] = db, s
		return db, nil
	})
	if err != nil {
		return nil, err
	}
	return db.(*sqlx.DB), nil
}

// bounds are those of whoever runs slots of a store; none where it is the only one.
func (f *fleet) bounds(db *sqlx.DB) slots.Shared {
	if f == nil {
		return slots.Shared{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[db].bounds
}

// write lets one store at a time write a file: so many are not to lose patience with each other.
func (f *fleet) write(fn func() error) error {
	if f != nil {
		f.writing.Lock()
		defer f.writing.Unlock()
	}
	return fn()
}

func (f *fleet) close() (err error) {
	for _, db := range f.pools {
		err = errors.Join(err, db.Close())
	}
	return err
}
