package slots

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Leaving is rows that were given to another store, and do not wait there as far as is known here: a move goes on, or was left.
type Leaving struct {
	From, To string // what the stores are called by who moves
	Rows     int64
	Since    time.Time // UTC
}

// Leaving lists what is on its way to other stores, the oldest first.
func (l *Ledger) Leaving(ctx context.Context) ([]Leaving, error) {
	all, err := list(ctx, l, pgsql.StoreNotes, nil, func(row *sql.Rows, v *Leaving) error {
		var given pq.Int64Array
		err := row.Scan(new(int64), new(string), &v.From, &v.To, &given, &v.Since)
		v.Rows, v.Since = int64(len(given)), v.Since.UTC()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is on its way to other stores: %w", err)
	}
	return all, nil
}
