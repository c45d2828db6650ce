package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/tx"
)

const (
	// chunk bounds the requests of one statement. Between two statements the server waits.
	chunk = 10_000
	// chunkBytes bounds the bytes of text of these requests, unless it is one request. A statement needs
	// about ten times as much memory.
	chunkBytes = 4 << 20
	// maxBadRequests bounds the bad requests of a stream that EnqueueAll keeps.
	maxBadRequests = 1000
)

// EnqueueMany enqueues many requests in one transaction: tx, or a new one with OwnTx. If a request is bad, it writes
// nothing, and a *BulkError lists every bad request. A key given twice counts as two calls, in order. One statement
// writes up to 10,000 requests with up to 4 MiB of text. Concurrent calls that need several statements
// may deadlock as EnqueueAll may. on is as with Enqueue.
func (c *Client) EnqueueMany(ctx context.Context, tx Tx, list []Request, on ...OnConflict) (EnqueueCounts, error) {
	return c.enqueueMany(ctx, tx, list, lastOf(on))
}

func (c *Client) enqueueMany(ctx context.Context, db DB, list []Request, on OnConflict) (EnqueueCounts, error) {
	if err := c.validateAll(list); err != nil {
		return EnqueueCounts{}, err
	}
	if err := on.validate(); err != nil {
		return EnqueueCounts{}, fmt.Errorf("enqueue %s: %w", spoken.Count(len(list), "request", "requests"), err)
	}
	var total EnqueueCounts
	err := c.through(ctx, db, list, c.validateAll, func(ctx context.Context, db DB, list []Request) error {
		return tx.In(ctx, db, func(db tx.DB) error {
			total = EnqueueCounts{}
			for part := range parts(list) {
				n, err := c.writeChunk(ctx, db, part, on)
				if err != nil {
					return err
				}
				total = total.plus(n)
			}
			return nil
		})
	})
	if _, ok := errors.AsType[*BulkError](err); ok {
		return EnqueueCounts{}, err
	}
	if err != nil {
		return EnqueueCounts{}, fmt.Errorf("enqueue %s: %w", spoken.Count(len(list), "request", "requests"), err)
	}
	return total, nil
}

// parts divides a list into the requests of one statement each. An empty list is one part.
func parts(list []Request) iter.Seq[[]Request] {
	return func(yield func([]Request) bool) {
		first, size := 0, 0
		for i, request := range list {
			if i > first && (i-first == chunk || size+request.size() > chunkBytes) {
				if !yield(list[first:i]) {
					return
				}
				first, size = i, 0
			}
			size += request.size()
		}
		yield(list[first:])
	}
}

// EnqueueAll enqueues a stream of requests, in bounded memory and in one transaction. The rules are
// those of EnqueueMany, but a *BulkError lists at most the first 1,000 bad requests. Two concurrent
// streams with the same keys in another order may deadlock: then one of them fails, with nothing
// written. on is as with Enqueue.
//
// A stream is written while all goes on, so all must not use tx.
func (c *Client) EnqueueAll(
	ctx context.Context, tx Tx, all iter.Seq[Request], on ...OnConflict,
) (EnqueueCounts, error) {
	return c.enqueueAll(ctx, tx, all, lastOf(on))
}

func (c *Client) enqueueAll(ctx context.Context, db DB, all iter.Seq[Request], on OnConflict) (EnqueueCounts, error) {
	if err := on.validate(); err != nil {
		return EnqueueCounts{}, fmt.Errorf("enqueue requests: %w", err)
	}
	if all == nil {
		return EnqueueCounts{}, errors.New("enqueue requests: the sequence is nil")
	}
	var total EnqueueCounts
	in := tx.In
	if len(c.cfg.Around) > 0 {
		in = tx.Mixed
	}
	err := in(ctx, db, func(db tx.DB) error {
		return atomically(ctx, db, func() (err error) {
			total, err = c.stream(ctx, db, all, on)
			return err
		})
	})
	if err != nil {
		return EnqueueCounts{}, err
	}
	return total, nil
}

// stream validates requests while another goroutine writes the previous chunk. After a bad request it
// only validates.
func (c *Client) stream(ctx context.Context, tx DB, all iter.Seq[Request], on OnConflict) (EnqueueCounts, error) {
	w := writer{chunks: make(chan []Request), failed: make(chan struct{}), done: make(chan struct{})}
	fresh := on == Keep // until a key of the stream is found to wait
	copier := copier{client: c, numbers: map[string]int64{}}
	first := 0 // the index of the first request of a chunk; only the writer's goroutine uses it
	validate := func(changed []Request) error { return c.validatePart(changed, first, maxBadRequests) }
	go w.run(func(chunk []Request) (n EnqueueCounts, err error) {
		err = c.through(ctx, tx, chunk, validate, func(ctx context.Context, tx DB, chunk []Request) (err error) {
			copied := false
			if fresh && !slices.ContainsFunc(chunk, Request.conditional) {
				n, copied, err = copier.write(ctx, tx, chunk)
				fresh = copied
			}
			if !copied && err == nil {
				n, err = c.writeChunk(ctx, tx, chunk, on)
			}
			return pg.ExplainMissing(err)
		})
		first += len(chunk)
		return n, err
	})
	defer func() { _, _ = w.finish() }() // when the iterator panics, too

	var bad BulkError
	var requests []Request
	index, size := 0, 0
	for request := range all {
		bad.add(index, c.validate(request))
		index++
		if len(bad.Requests) > 0 {
			if len(bad.Requests) == maxBadRequests {
				break
			}
			continue
		}
		if len(requests) == chunk || len(requests) > 0 && size+request.size() > chunkBytes {
			if !w.send(requests) {
				break
			}
			requests, size = make([]Request, 0, len(requests)), 0
		}
		requests, size = append(requests, request), size+request.size()
	}
	if len(bad.Requests) == 0 && len(requests) > 0 {
		w.send(requests)
	}
	total, err := w.finish()
	if w.panicked != nil {
		panic(w.panicked) // here, where the caller may recover from it
	}
	switch {
	case len(bad.Requests) > 0:
		return EnqueueCounts{}, &bad
	case err != nil:
		return EnqueueCounts{}, fmt.Errorf("enqueue requests: %w", err)
	}
	return total, nil
}

// writer writes chunks on its own goroutine, until one fails.
type writer struct {
	chunks chan []Request
	failed chan struct{} // closed at the first error
	done   chan struct{}
	total  EnqueueCounts
	err    error

	panicked any // the value of a middleware's panic

	once sync.Once
}

// errGoexit is the error of a stream whose writer was ended.
var errGoexit = errors.New("a middleware called runtime.Goexit")

func (w *writer) run(write func(chunk []Request) (EnqueueCounts, error)) {
	defer close(w.done)
	returned := false
	defer func() {
		if !returned {
			w.panicked, w.err = recover(), errGoexit
			close(w.failed)
		}
	}()
	for chunk := range w.chunks {
		n, err := write(chunk)
		if err != nil {
			w.err = err
			close(w.failed)
			break
		}
		w.total = w.total.plus(n)
	}
	returned = true
}

// send returns false when an earlier chunk has failed.
func (w *writer) send(chunk []Request) bool {
	select {
	case w.chunks <- chunk:
		return true
	case <-w.failed:
		return false
	}
}

// finish waits until all chunks are written. It may be called again.
func (w *writer) finish() (EnqueueCounts, error) {
	w.once.Do(func() { close(w.chunks) })
	<-w.done
	return w.total, w.err
}

// writeChunk writes requests that have been validated.
func (c *Client) writeChunk(ctx context.Context, db DB, list []Request, on OnConflict) (EnqueueCounts, error) {
	var n EnqueueCounts
	err := c.row(ctx, db, pg.EnqueueMany, columns(list, on, c.clock()), &n.Inserted, &n.Kept, &n.Replaced,
		&n.PushedBack, &n.Recorded, &n.Recent)
	return n, explain(on, err)
}

// atomically undoes what fn wrote in the caller's transaction if fn fails or panics, so that the caller may commit what
// else the transaction did. This also ends the abort of the transaction by an error of the database.
func atomically(ctx context.Context, tx DB, fn func() error) (err error) {
	if _, err := tx.ExecContext(ctx, "savepoint prescient_bulk"); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	then := []string{"rollback to savepoint prescient_bulk", "release savepoint prescient_bulk"}
	defer func() {
		ctx := context.WithoutCancel(ctx) // the caller's transaction may have another context, and go on
		for _, statement := range then {
			if _, failed := tx.ExecContext(ctx, statement); failed != nil && err == nil {
				err = fmt.Errorf("end savepoint: %w", failed) // otherwise the connection is broken, which err says
			}
		}
	}()
	if err = fn(); err == nil {
		then = then[1:]
	}
	return err
}

func (n EnqueueCounts) plus(m EnqueueCounts) EnqueueCounts {
	return EnqueueCounts{
		n.Inserted + m.Inserted, n.Kept + m.Kept, n.Replaced + m.Replaced, n.PushedBack + m.PushedBack,
		n.Recorded + m.Recorded,
		n.Recent + m.Recent,
	}
}
