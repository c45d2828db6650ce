package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/trust"
	pgsql "github.com/prescient-go/prescient/sql"
)

// OpenURL is pgsql.Open, unless another user may have chosen the server. It refuses a URL or
// PGSERVICE that names a service whose file another user may have written, because that file names
// the server that gets the password. lib/pq checks the mode of a password file itself, as libpq
// does. Before each connection to the private PostgreSQL it checks the socket's directory.
func OpenURL(ctx context.Context, url string, opts ...pgsql.Option) (*sqlx.DB, error) {
	if cfg, err := pq.NewConfig(url); err == nil && cfg.Service != "" {
		err := trust.File(cfg.ServiceFile)
		if refused, ok := errors.AsType[*trust.Error](err); ok {
			return nil, &exit.Error{
				Code: exit.Usage, Err: fmt.Errorf("read service %s from %s: %w", cfg.Service, refused.Path, refused),
			}
		}
	}
	if private, err := embedded.Open(embedded.Config{}); err == nil && url == private.URL() {
		opts = append(opts, pg.Guard(private.CheckSocket))
	}
	return pgsql.Open(ctx, url, opts...)
}
