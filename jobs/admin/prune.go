package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
)

// ErrHistoryInUse is returned by Prune if a long read of history blocks it.
var ErrHistoryInUse = errors.New("a session is reading history, such as a dump or a long query: " +
	"try again when it has ended")

const (
	// pruneTries bounds the tries of Prune, with pauses of prunePause, which short statements do
	// not outlast.
	pruneTries = 5
	prunePause = 700 * time.Millisecond
)

// PrunedPartition is a part of history that was dropped, or the deleted rows of table action or
// rule_fired.
type PrunedPartition struct {
	Partition string `json:"partition"` // the table of a month of history; action or rule_fired: rows of that table
	Rows      int64  `json:"rows"`      // for months: by the table statistics
}

// Prune drops the months (UTC) of history that ended before an instant. It also deletes the older
// rows of table action, the record of what operators did, and of table rule_fired: what rules have
// fired for keys that do not wait. It returns what is gone.
//
// It never waits for sessions that read history, because every transaction that ends a check would
// wait behind it. It tries a pool for a few seconds, and a transaction once. Then it returns
// ErrHistoryInUse, and has dropped nothing.
func (c *Client) Prune(ctx context.Context, db jobs.DB, before time.Time) ([]PrunedPartition, error) {
	return c.pruneAll(ctx, db, before, false)
}

// PreviewPrune returns what [Client.Prune] would drop and delete, and changes nothing.
func (c *Client) PreviewPrune(ctx context.Context, db jobs.DB, before time.Time) ([]PrunedPartition, error) {
	return c.pruneAll(ctx, db, before, true)
}

// pruneAll is Prune, or with dryRun PreviewPrune.
func (c *Client) pruneAll(ctx context.Context, db jobs.DB, before time.Time, dryRun bool) ([]PrunedPartition, error) {
	pruned, err := c.prune(ctx, db, before, dryRun)
	for try := 1; try < pruneTries && !tx.Is(db) && pg.IsLockTimeout(err); try++ {
		if !elapsed.Sleep(ctx, prunePause) {
			return nil, fmt.Errorf("prune history: %w", ctx.Err())
		}
		pruned, err = c.prune(ctx, db, before, dryRun)
	}
	if pg.IsLockTimeout(err) {
		err = fmt.Errorf("%w (%w)", ErrHistoryInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("prune history: %w", err)
	}
	fired, err := c.pruneFired(ctx, db, before, dryRun)
	if err != nil {
		return pruned, fmt.Errorf("prune what rules have fired: %w", err)
	}
	if fired > 0 {
		pruned = append(pruned, PrunedPartition{"rule_fired", fired})
	}
	return pruned, nil
}

// pruneBatch is how many entries of table rule_fired a transaction reads.
const pruneBatch = 10_000

// firedEntry names an entry of table rule_fired. The zero value stands for the first or the last one.
type firedEntry struct {
	job       sql.NullInt64
	key, step sql.NullString
	since     sql.NullTime
}

func (e *firedEntry) args() []any { return []any{e.job, e.key, e.since, e.step} }

func (e *firedEntry) targets() []any { return []any{&e.job, &e.key, &e.since, &e.step} }

// pruneFired deletes the old entries of table rule_fired, in bounded transactions, and returns their number. It begins
// at a random entry, because its context may end before it has read all of them: the next call then reads others.
func (c *Client) pruneFired(ctx context.Context, db jobs.DB, before time.Time, dryRun bool) (fired int64, err error) {
	if dryRun {
		err = tx.Read(ctx, db, func(db tx.DB) error {
			return pg.One(ctx, db, pg.RulePruneCount.In(c.jobs.Schema()), []any{before}, &fired)
		})
		return fired, err
	}
	var first firedEntry
	err = tx.Read(ctx, db, func(db tx.DB) error {
		return pg.One(ctx, db, pg.RulePruneStart.In(c.jobs.Schema()), nil, first.targets()...)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	fired, err = c.pruneBetween(ctx, db, before, first, firedEntry{})
	if err != nil || !first.job.Valid {
		return fired, err
	}
	n, err := c.pruneBetween(ctx, db, before, firedEntry{}, first)
	return fired + n, err
}

// pruneBetween is pruneFired for the entries after one, up to another one.
func (c *Client) pruneBetween(
	ctx context.Context, db jobs.DB, before time.Time, after, upTo firedEntry,
) (fired int64, err error) {
	for {
		var gone, read int64
		err := tx.In(ctx, db, func(db tx.DB) error {
			args := slices.Concat([]any{before}, after.args(), []any{pruneBatch}, upTo.args())
			return pg.One(ctx, db, pg.RulePrune.In(c.jobs.Schema()), args, append([]any{&gone, &read}, after.targets()...)...)
		})
		if err != nil {
			return fired, err
		}
		if fired += gone; read < pruneBatch {
			return fired, nil
		}
	}
}

func (c *Client) prune(
	ctx context.Context, db jobs.DB, before time.Time, dryRun bool,
) (pruned []PrunedPartition, err error) {
	in := tx.In
	if dryRun {
		in = tx.Read
	}
	err = in(ctx, db, func(db tx.DB) error {
		args := []any{before, dryRun}
		pruned, err = pg.Collect(ctx, db, pg.HistoryPrune.In(c.jobs.Schema()), args,
			func(row *sql.Rows, p *PrunedPartition) error {
				return row.Scan(&p.Partition, &p.Rows)
			})
		return err
	})
	return pruned, err
}
