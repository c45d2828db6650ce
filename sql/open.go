package sql

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
)

// ErrURL is returned for a database URL that cannot be parsed. It says nothing about the URL, which
// may hold a password.
var ErrURL = pg.ErrURL

// Option changes how Open connects.
type Option func(o *pg.Options)

// Patient removes the bound of two minutes for the next bytes of an answer. It is for statements that may run long,
// such as migrations and a change of the width.
func Patient() Option { return pg.Patient() }

// Prepared lets every connection prepare each statement with parameters once and keep it, because
// planning is most of the work of a small statement. The URL must lead to the server itself, not to
// a pooler in transaction mode. Parameter types and tables are fixed when a statement is prepared:
// see docs/settings.md. Without Prepared, a connection keeps the enqueues of package jobs, if it leads to the server
// itself.
func Prepared() Option { return pg.Prepared() }

// Param sets a run-time parameter of PostgreSQL for every session, such as synchronous_commit.
func Param(name, value string) Option { return pg.Param(name, value) }

// Open connects to the database at url, a postgres:// URL or key=value pairs, and checks the
// connection. A URL may name several servers
// (postgres://a:5432,b:5432/shop?target_session_attrs=read-write). Each new connection goes to the
// first server that matches target_session_attrs. If neither url nor the environment sets sslmode,
// it is prefer. connect_timeout defaults to 10 s, and application_name to prescient.
//
// The pool is safe for concurrent use. The caller closes it. The pool keeps idle connections for a
// minute; database/sql alone would open most of them anew for every transaction.
func Open(ctx context.Context, url string, opts ...Option) (*sqlx.DB, error) {
	var set []func(*pg.Options)
	for _, opt := range opts {
		set = append(set, opt)
	}
	return pg.Open(ctx, url, set...)
}
