package replay

import (
	"context"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// poolSize is enough for two runners with the default configuration.
const poolSize = 32

// Connect opens a pool that is made for replays, several times as fast as any other: its connections prepare every
// statement once, and do not wait for the disk. The server must be reached directly, not through a pooler in
// transaction mode. url is a postgres:// URL or key=value pairs; pgsql.ErrURL is all that is said about a bad one.
// The pool is the caller's to close.
func Connect(ctx context.Context, url string) (*sqlx.DB, error) {
	db, err := pgsql.Open(ctx, url,
		pgsql.Prepared(),
		pgsql.Param("synchronous_commit", "off"),
		pgsql.Param("plan_cache_mode", "force_generic_plan"), // most of the work of a small slot is planning
	)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(poolSize)
	return db, nil
}
