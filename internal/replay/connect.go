package replay

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// poolSize is enough for two runners with the default configuration.
const poolSize = 32

// Connect opens a pool for replays, which is several times as fast as any other: its connections
// prepare every statement once, and do not wait for the disk. The URL must lead to the server
// itself, not to a pooler in transaction mode. url is a postgres:// URL or key=value pairs. An
// invalid one returns pgsql.ErrURL, which does not show it. The caller closes the pool.
func Connect(ctx context.Context, url string) (*sqlx.DB, error) {
	db, err := connect(ctx, url, "force_generic_plan") // most of the work of a small slot is planning
	if err != nil {
		return nil, err
	}
	var citus bool // which cannot plan for unknown parameters
	err = db.GetContext(ctx, &citus, "select exists (select from pg_extension where extname = 'citus')")
	if err == nil && !citus {
		return db, nil
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return connect(ctx, url, "auto")
}

func connect(ctx context.Context, url, plans string) (*sqlx.DB, error) {
	db, err := pgsql.Open(ctx, url, pgsql.Prepared(), pgsql.Param("synchronous_commit", "off"),
		pgsql.Param("plan_cache_mode", plans))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(poolSize)
	return db, nil
}
