package sql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/grid"
)

// Setting holds the settings of a store, as read at one moment. They belong to the data, not to a
// process.
type Setting struct {
	Grid  grid.Grid
	Since time.Time // first slot of this width: the ledger has no gaps before it
	Store string    // the uuid of the store

	Server Server // the server it was read from
	Citus  bool   // the database belongs to a Citus cluster

	clock   time.Time // the database's clock when the setting was read
	elapsed time.Time // a local instant, to measure the time since
}

// Server identifies a database.
type Server struct {
	Host     string `json:"host"`     // its address and port; empty: a unix socket
	Database string `json:"database"` // its name
	Version  string `json:"version"`  // of PostgreSQL, such as 15.18
}

// Now returns the database's clock without asking it again. It adds the time since the setting was
// read, by a local monotonic clock, to the clock that was read.
func (s Setting) Now() time.Time {
	return s.clock.Add(time.Since(s.elapsed))
}

// ReadSetting reads the settings. Returns ErrNotMigrated if the schema is older than this code.
// Returns ErrNewer if the schema is newer and code of this version must not use it. Returns an
// EngineError as RefuseEngine does.
func ReadSetting(ctx context.Context, db Pool, schema Schema) (Setting, error) {
	return readSetting(ctx, db, schema, (*pg.Message).Read)
}

// ReadSettingToWrite is ReadSetting for a process that writes. Returns ErrReadOnly if the server is a
// hot standby. The pool does not use its connection to that server again.
func ReadSettingToWrite(_ reserved.Caller, ctx context.Context, db Pool, schema Schema) (Setting, error) {
	return readSetting(ctx, db, schema, func(m *pg.Message, ctx context.Context, db *sqlx.DB) error {
		return m.Commit(ctx, db, "set local jit = off")
	})
}

func readSetting(
	ctx context.Context, db Pool, schema Schema, send func(m *pg.Message, ctx context.Context, db *sqlx.DB) error,
) (Setting, error) {
	var s Setting
	pool := pg.Sqlx(db)
	if pool == nil {
		return s, pg.ErrNoDatabase
	}
	var seconds, since, version, usableFrom, clock int64
	var m pg.Message
	m.Add(pg.ReadSettings.In(schema), nil, func(row *sql.Rows) error {
		return row.Scan(&seconds, &since, &version, &usableFrom, &clock, &s.Server.Host, &s.Server.Database,
			&s.Server.Version, &s.Citus, &s.Store)
	})
	addEngine(&m)
	err := pg.Retry(func() error {
		err := send(&m, ctx, pool)
		s.elapsed = elapsed.Now() // after the answer, so that Now never runs ahead of the database
		return err
	})
	switch {
	case err == nil && version < SchemaVersion: // 0: the row is missing
		return s, ErrNotMigrated
	case err != nil:
		return s, fmt.Errorf("read settings: %w", pg.ExplainMissing(err))
	case usableFrom > SchemaVersion:
		return s, ErrNewer
	}
	s.Since, s.clock = time.UnixMicro(since).UTC(), time.UnixMicro(clock).UTC()
	s.Grid, err = grid.New(time.Duration(seconds) * time.Second)
	return s, err
}
