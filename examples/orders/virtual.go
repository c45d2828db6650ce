package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// poolSize is enough for the runners of four replays.
const poolSize = 32

// connect opens a pool for replays: its connections prepare every statement once, and do not wait for the disk,
// because a crash loses only what can be replayed. The caller closes the pool.
func connect(ctx context.Context, url string) (*sqlx.DB, error) {
	db, err := pgsql.Open(ctx, url, pgsql.Prepared(), pgsql.Param("synchronous_commit", "off"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(poolSize)
	return db, nil
}

// virtual is the engine in virtual time: its clock stands still until the caller moves it. It has a schema of its own,
// so it can use any database.
type virtual struct {
	schema string
	client *jobs.Client
	runner *slots.Runner

	db  *sqlx.DB
	now time.Time
}

// newVirtual creates the schema and sets the clock. The ledger of slots begins at the first slot from then on.
func newVirtual(ctx context.Context, db *sqlx.DB, registry *jobs.Registry, start time.Time) (*virtual, error) {
	v := &virtual{schema: "prescient_replay_" + strings.ToLower(rand.Text()[:12]), db: db, now: start.UTC()}
	if err := v.open(ctx, registry); err != nil {
		return nil, errors.Join(err, v.close(ctx))
	}
	return v, nil
}

func (v *virtual) open(ctx context.Context, registry *jobs.Registry) error {
	clock := func() time.Time { return v.now }
	if err := pgsql.Migrate(ctx, v.db, pgsql.Schema(v.schema)); err != nil {
		return err
	}
	l, err := ledger.New(ctx, v.db, v.schema, clock)
	if err != nil {
		return err
	}
	if err = l.Begin(ctx, l.Grid().Ceil(v.now)); err != nil {
		return err
	}
	if v.client, err = jobs.NewClient(ctx, v.db, jobs.Config{Schema: v.schema, Now: clock}); err != nil {
		return err
	}
	v.runner, err = slots.NewRunner(ctx, slots.Config{
		DB: v.db, Schema: v.schema, Registry: registry, Name: "replay", Now: clock,
	})
	return err
}

// next returns the first slot after the clock in which a check waits, or last if that comes before.
func (v *virtual) next(ctx context.Context, last time.Time) (time.Time, error) {
	var slot sql.NullTime
	err := v.db.GetContext(ctx, &slot, "select min(next_check_at) from "+pq.QuoteIdentifier(v.schema)+
		".future_job where next_check_at > $1", v.now)
	if err != nil {
		return last, fmt.Errorf("find the next slot: %w", err)
	}
	if slot.Valid && slot.Time.Before(last) {
		return slot.Time.UTC(), nil
	}
	return last, nil
}

// close drops the schema and everything in it.
func (v *virtual) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return pgsql.InTx(ctx, v.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "drop schema if exists "+pq.QuoteIdentifier(v.schema)+" cascade")
		return err
	})
}
