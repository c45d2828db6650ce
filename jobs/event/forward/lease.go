package forward

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// errHeld means that another forwarder sends to the destination.
var errHeld = errors.New("another process sends to the destination")

// waits tells which work a forwarder had when it last asked the database.
type waits struct {
	events bool // after the position of the consumer; perhaps none of them can be read yet
	again  bool // refused events to try again
}

// look finds out what waits. It takes no lease.
func (s *sender) look(ctx context.Context) (w waits, err error) {
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.EventWaiting.In(s.cfg.Schema), s.to.Name, s.cfg.Continue).Scan(&w.events, &w.again)
	})
	if errors.Is(err, sql.ErrNoRows) { // it was forgotten
		err = Name(ctx, Config{DB: s.cfg.DB, Schema: s.cfg.Schema, Destinations: []Destination{s.to}})
	}
	if err != nil {
		return waits{}, fmt.Errorf("look for events of destination %q: %w", s.to.Name, pg.ExplainMissing(err))
	}
	return w, nil
}

// hold takes or renews the lease, and reads the position of the consumer.
func (s *sender) hold(ctx context.Context) error {
	before := monotonic()
	var failing bool
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.EventHold.In(s.cfg.Schema), s.to.Name, s.token, s.cfg.Lease.Seconds()).
			Scan(&s.at.Mark, &s.at.Number, &failing)
	})
	if errors.Is(err, sql.ErrNoRows) {
		s.held = false
		return errHeld
	}
	if err != nil {
		return fmt.Errorf("take destination %q: %w", s.to.Name, pg.ExplainMissing(err))
	}
	if !s.held {
		clear(s.done)
		if failing { // a process may try once, as resize does after several tries
			s.size = mostSize
		}
	}
	s.held, s.heldAt = true, before
	return nil
}

// release gives the lease back.
func (s *sender) release(ctx context.Context) {
	if !s.held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pg.EventRelease.In(s.cfg.Schema), s.to.Name, s.token)
		return err
	})
	if err != nil {
		const says = "a destination stays taken until its lease ends"
		s.cfg.Logger.WarnContext(ctx, says, "destination", s.to.Name, "error", err)
	}
}

// record moves the consumer to a position, renews the lease, records the error of the last try, and calls also in the
// same transaction. It returns errHeld if another forwarder has taken the lease: then nothing is recorded.
func (s *sender) record(
	ctx context.Context, at outbox.Position, failure error, also func(ctx context.Context, tx *sqlx.Tx) error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime) // it was sent, also if ctx has ended
	defer cancel()
	var text any
	if failure != nil {
		text = plain.ErrorText(failure)
	}
	var moved outbox.Position
	var w waits
	before := monotonic()
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		err := tx.QueryRowContext(ctx, pg.EventForwarded.In(s.cfg.Schema), s.to.Name, s.token, fmt.Sprint(at.Mark),
			at.Number, text, s.cfg.Lease.Seconds(), s.cfg.Continue).Scan(&moved.Mark, &moved.Number, &w.events, &w.again)
		if err != nil || also == nil {
			return err
		}
		return also(ctx, tx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		s.held = false
		return errHeld
	}
	if err != nil {
		return fmt.Errorf("record what destination %q got: %w", s.to.Name, pg.ExplainMissing(err))
	}
	s.at, s.waits, s.heldAt = moved, w, before
	return nil
}
