package stores

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
)

// transfer moves a batch from the source to a target, by the messages that
// sql/functions/give_rows.sql describes, and counts it. If it is interrupted, the next move
// finishes it.
func (m *mover) transfer(ctx context.Context, target *Store, items []item) error {
	batch := newNumber()
	if err := m.receive(ctx, target, batch, items); err != nil {
		return err
	}
	given, err := m.give(ctx, target, batch, items)
	if err != nil {
		if pg.HasState(err, otherMover) { // the source never gives it
			_ = m.settle(ctx, target, note{batch: batch})
		}
		return &sourceError{err}
	}
	if err := m.settle(ctx, target, note{batch, m.source.Name, target.Name, given}); err != nil {
		return err
	}
	for _, nth := range given {
		if i := items[nth-1]; i.schedule != "" {
			m.moved.Schedules++
		} else {
			m.moved.Rows++
		}
		m.moved.To[target.Name]++
	}
	m.moved.changed += len(items) - len(given)
	return nil
}

// sourceError is an error of the source. The move cannot go on after it.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// otherMover is the SQLSTATE that a move gets when another move has taken over.
const otherMover = "PS003"

// newNumber returns a random number that no other move has.
func newNumber() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

// receive makes the target write copies of the items, which no run touches.
func (m *mover) receive(ctx context.Context, target *Store, batch int64, items []item) error {
	var names, rows, definitions, drops pq.StringArray
	for _, i := range items {
		names, rows = append(names, i.name), append(rows, i.data)
		definitions, drops = append(definitions, i.definition), append(drops, i.dropped)
	}
	args := []any{m.source.id, batch, names, rows, definitions, drops, pausedJobs(items)}
	paused, err := send(ctx, target, m.what.By, pg.StoreReceive, args,
		func(row *sql.Rows, job *string) error { return row.Scan(job) })
	if len(paused) > 0 {
		m.moved.Paused[target.Name] = append(m.moved.Paused[target.Name], paused...)
	}
	return err
}

// pausedJobs returns the paused jobs of items.
func pausedJobs(items []item) pq.StringArray {
	names := pq.StringArray{}
	for _, i := range items {
		if i.paused {
			names = append(names, i.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// give makes the source delete the items that have not changed. It returns which, by their numbers
// from 1 on.
func (m *mover) give(ctx context.Context, target *Store, batch int64, items []item) (given pq.Int64Array, err error) {
	var slots, versions, schedules, scheduleVersions pq.StringArray
	var numbers, ids pq.Int64Array
	for _, i := range items {
		slots, numbers, ids, versions = append(slots, i.slot.UTC().Format(timestamp)), append(numbers,
			i.job), append(ids, i.id), append(versions, i.version)
		schedules, scheduleVersions = append(schedules, i.schedule), append(scheduleVersions, i.scheduleVersion)
	}
	args := []any{
		m.token, batch, target.id, m.source.Name, target.Name, slots, numbers, ids, versions, schedules,
		scheduleVersions, pausedJobs(items), m.clock(),
	}
	rows, err := send(ctx, m.source, m.what.By, pg.StoreGive, args,
		func(row *sql.Rows, given *pq.Int64Array) error { return row.Scan(given) })
	return slices.Concat(rows...), err
}

// timestamp is the layout of an instant for the database.
const timestamp = "2006-01-02T15:04:05.999999Z07:00"

// note is a batch that the source has given.
type note struct {
	batch                  int64
	sourceName, targetName string
	given                  pq.Int64Array
}

// settle makes the given rows wait in the target, and then makes the source forget the batch.
func (m *mover) settle(ctx context.Context, target *Store, n note) error {
	given := n.given
	if given == nil {
		given = pq.Int64Array{}
	}
	args := []any{m.source.id, n.batch, given, n.sourceName, n.targetName, m.clock()}
	type settled struct{ waits, replaced, cancelled int64 }
	rows, err := send(ctx, target, m.what.By, pg.StoreSettle, args, func(row *sql.Rows, s *settled) error {
		return row.Scan(&s.waits, &s.replaced, &s.cancelled)
	})
	for _, s := range rows {
		m.moved.Replaced += s.replaced
		m.moved.Cancelled += s.cancelled
	}
	if err != nil && len(given) > 0 {
		return fmt.Errorf("%s on the way, and the next move from %s finishes it: %w",
			spoken.Count(len(given), "row is", "rows are"), m.source.Name, err)
	}
	if err != nil || len(given) == 0 {
		return err
	}
	if _, err := send(ctx, m.source, m.what.By, pg.StoreForget, []any{n.batch}, skip); err != nil {
		return &sourceError{err}
	}
	return nil
}

// left is a note of an interrupted move.
type left struct {
	note
	target string
}

// finish settles interrupted moves: batches that the source has given, and copies of rows that it
// has kept. It leaves stores that do not answer to a later move. Each message may arrive late,
// after another move has taken over.
func (m *mover) finish(ctx context.Context) error {
	all, err := send(ctx, m.source, m.what.By, pg.StoreNotes, nil, func(row *sql.Rows, l *left) error {
		return row.Scan(&l.batch, &l.target, &l.sourceName, &l.targetName, &l.given, new(any))
	})
	if err != nil {
		return err
	}
	for _, l := range all {
		target := m.byID(l.target)
		if target == nil {
			m.errs = append(m.errs, m.unreachable(l))
			continue
		}
		err := m.settle(ctx, target, l.note)
		if _, ofSource := errors.AsType[*sourceError](err); ofSource {
			return err
		}
		if err != nil {
			m.fails(target, err)
			continue
		}
		m.moved.Finished += int64(len(l.given))
	}
	for store, batches := range m.copies {
		stale := slices.DeleteFunc(batches, func(batch int64) bool {
			return slices.ContainsFunc(all, func(l left) bool { return l.batch == batch })
		})
		if len(stale) == 0 {
			continue
		}
		if _, err := send(ctx, store, m.what.By, pg.StoreDrop,
			[]any{m.source.id, pq.Int64Array(stale)}, skip); err != nil {
			m.fails(store, err)
		}
	}
	return nil
}

// unreachable returns the error of rows on their way to a store whose id is unknown.
func (m *mover) unreachable(l left) error {
	if target, err := named(m.stores, l.targetName); err == nil && target.Err != nil {
		return fmt.Errorf("%s on the way to store %s: repeat when it answers: %w",
			spoken.Count(len(l.given), "row is", "rows are"), target.Name, target.Err)
	}
	return fmt.Errorf("%s on the way to store %s, which is none of these stores: name it, and repeat",
		spoken.Count(len(l.given), "row is", "rows are"), l.targetName)
}

// findCopies lists the batches with copies that existed before this move could take rows. Their
// movers can no longer give any of them, and later movers have none here yet.
func (m *mover) findCopies(ctx context.Context) error {
	m.copies = map[*Store][]int64{}
	for _, store := range m.stores {
		if store == m.source || store.Err != nil {
			continue // a later move drops the copies of a store that is down
		}
		batches, err := send(ctx, store, m.what.By, pg.StoreBatches, []any{m.source.id},
			func(row *sql.Rows, batch *int64) error { return row.Scan(batch) })
		if err != nil {
			return err
		}
		m.copies[store] = batches
	}
	return nil
}
