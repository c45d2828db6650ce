package pg

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"
)

// Pool is a *sql.DB or a *sqlx.DB. Where a pool must be set, a value of another type, such as a wrapper, is refused as
// if it were nil.
type Pool interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	Conn(ctx context.Context) (*sql.Conn, error)
	PingContext(ctx context.Context) error
	Stats() sql.DBStats
}

// Sqlx returns a pool as a *sqlx.DB, which shares its connections. Returns nil if there is no pool.
func Sqlx(db Pool) *sqlx.DB {
	switch db := db.(type) {
	case *sqlx.DB:
		return db
	case *sql.DB:
		if db != nil {
			return sqlx.NewDb(db, "postgres")
		}
	}
	return nil
}
