package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
)

// Leaving is rows that were released to another store and, as far as this store knows, do not wait there yet: a move is
// running, or was interrupted.
type Leaving struct {
	From, To string // the mover's names for the stores
	Rows     int64
	Since    time.Time // UTC
}

// Leaving lists the rows on their way to other stores, oldest first.
func (l *Ledger) Leaving(ctx context.Context) ([]Leaving, error) {
	all, err := list(ctx, l, pg.StoreNotes, nil, func(row *sql.Rows, v *Leaving) error {
		var given pq.Int64Array
		err := row.Scan(new(int64), new(string), &v.From, &v.To, &given, pg.UTC(&v.Since))
		v.Rows = int64(len(given))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is on its way to other stores: %w", err)
	}
	return all, nil
}
