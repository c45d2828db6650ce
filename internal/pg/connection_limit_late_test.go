package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// lookedAt is a connector and its connection. It calls back when the pool checks the connection on
// its way back.
type lookedAt struct {
	pqconn.Conn
	back func()
}

func (l lookedAt) Connect(context.Context) (driver.Conn, error) { return l, nil }
func (l lookedAt) Driver() driver.Driver                        { return nil }
func (l lookedAt) ResetSession(context.Context) error           { return nil }
func (l lookedAt) Close() error                                 { return nil }

func (l lookedAt) IsValid() bool {
	l.back()
	return true
}

func TestACallerThatStartsToWaitWhileAConnectionIsPutAwayGetsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, entered := NewConnectionLimit(1), make(chan error, 1)
		db := sql.OpenDB(connector{lookedAt{back: func() {
			go func() { entered <- limit.enter(t.Context()) }()
			synctest.Wait()
		}}, &preparing{}, limit, new(atomic.Bool)})
		limit.add(db)
		conn, err := db.Conn(t.Context())
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-entered; err != nil {
			t.Error(err)
		}
		limit.leave()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
