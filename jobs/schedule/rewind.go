package schedule

import (
	"context"
	"fmt"
	"slices"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
)

// rewindPage is how many schedules one transaction of Rewind changes.
const rewindPage = 1000

// Rewind repairs schedules that were published or changed while the clock was ahead, and returns
// their number. Their next instant becomes the first one after now, as by Resume. Events that were
// published ahead of their instant are published again at it, with the same IDs. Rewind leaves a
// schedule alone that never fires again.
func (s *Store) Rewind(ctx context.Context, db jobs.DB) (rewound int, err error) {
	for after, full := "", true; full && err == nil; {
		var ids []string
		var n int
		err = inTx(ctx, db, func(tx jobs.DB) error {
			ids, n = nil, 0 // the transaction may be repeated
			now, err := s.now(ctx, tx)
			if err != nil {
				return err
			}
			ids, err = collect(ctx, s, tx, pg.ScheduleAhead, []any{now, after, rewindPage}, text)
			if err != nil || len(ids) == 0 {
				return err
			}
			n, err = s.rewind(ctx, tx, ids)
			return err
		})
		if full = len(ids) == rewindPage; err == nil {
			rewound += n
		}
		if full {
			after = ids[rewindPage-1]
		}
	}
	if err != nil {
		return rewound, fmt.Errorf("rewind schedules: %w", err)
	}
	return rewound, nil
}

func (s *Store) rewind(ctx context.Context, tx jobs.DB, ids []string) (int, error) {
	current, err := s.lock(ctx, tx, ids)
	if err != nil {
		return 0, err
	}
	now, err := s.now(ctx, tx) // after the lock, as in change
	if err != nil {
		return 0, err
	}
	var c changes
	for _, id := range slices.Sorted(slices.Values(ids)) {
		was, ok := current[id]
		if !ok {
			continue
		}
		known := was.known()
		if was.Last.After(now) {
			known.Last = 0
		}
		spec := was.Spec
		if row, err := s.prepare(&spec, known, now); err == nil && row != nil {
			c.specs, c.move = append(c.specs, spec), append(c.move, *row)
		}
	}
	return len(c.move), s.write(ctx, tx, c)
}
