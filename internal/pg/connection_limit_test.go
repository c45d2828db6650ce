package pg_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestPoolsOfOneServerHaveNoMoreConnectionsThanTheirLimit(t *testing.T) {
	t.Parallel()
	const most, pools, statements = 3, 4, 20
	limit := pg.NewConnectionLimit(most)
	var list []*sqlx.DB
	for range pools {
		list = append(list, open(t, pgtest.URL(t), pg.Limited(limit)))
	}
	var now, peak atomic.Int64
	var work sync.WaitGroup
	for _, db := range list {
		for range 2 * most {
			work.Go(func() {
				for range statements {
					conn, err := db.Connx(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					n := now.Add(1)
					for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
					}
					if _, err := conn.ExecContext(t.Context(), "select"); err != nil {
						t.Error(err)
					}
					now.Add(-1)
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	work.Wait()
	opened := 0
	for _, db := range list {
		opened += db.Stats().OpenConnections
	}
	if peak.Load() > most || opened > most {
		t.Errorf("%d connections were used at once, and %d are open, where %d may be", peak.Load(), opened, most)
	}
}

func TestAPoolTakesTheConnectionThatAnotherKeepsForLater(t *testing.T) {
	t.Parallel()
	limit := pg.NewConnectionLimit(1)
	first, second := open(t, pgtest.URL(t), pg.Limited(limit)), pgtest.URL(t)
	taken, err := first.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pgsql.Open(ctx, second, pg.Limited(limit)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the only connection is in use: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, second, pg.Limited(limit))
	if n := first.Stats().OpenConnections; n != 0 {
		t.Errorf("the first pool keeps %d connections", n)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}
