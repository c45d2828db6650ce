package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// CancelFilter selects waiting checks to cancel together. Zero fields do not narrow. It selects
// anonymous checks, but never the checks of schedules.
type CancelFilter struct {
	JobExec    string
	EntityName string
	EntityKey  string // * stands for any text
	GroupKey   string
}

// args returns the parameters of its statements.
func (f CancelFilter) args() []any {
	key := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%").Replace(f.EntityKey)
	return []any{nullable(f.JobExec), nullable(f.EntityName), nullable(key), nullable(f.GroupKey)}
}

// CountCancel counts the waiting checks that [Client.CancelMany] would end.
func (c *Client) CountCancel(ctx context.Context, db jobs.DB, f CancelFilter) (int64, error) {
	var n int64
	if err := c.row(ctx, db, pgsql.CancelCount, f.args(), &n); err != nil {
		return 0, fmt.Errorf("count the checks to cancel: %w", err)
	}
	return n, nil
}

// CancelMany ends up to limit waiting checks as Cancelled, the first slots first, and returns their
// number. It skips a row that another transaction has locked. To cancel all of them, the caller
// repeats it, each time in a new transaction, until it returns fewer than limit. It needs the
// rights of a runner.
func (c *Client) CancelMany(ctx context.Context, db jobs.DB, f CancelFilter, limit int) (int64, error) {
	if f == (CancelFilter{}) || limit < 1 {
		return 0, errors.New("cancel many: the filter must name something, and the limit be at least 1")
	}
	n := 0
	err := tx.In(ctx, db, func(db tx.DB) error {
		for again := false; n < limit; again = true {
			var cancelled, locked int
			args := append(f.args(), limit-n)
			if err := pgsql.One(ctx, db, pgsql.CancelMany.In(c.jobs.Schema), args, &cancelled, &locked); err != nil {
				return err
			}
			n += cancelled
			// A row that was moved meanwhile is locked now, and the next statement finds it.
			if cancelled == locked || again && cancelled == 0 {
				break
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cancel many: %w", err)
	}
	return int64(n), nil
}
