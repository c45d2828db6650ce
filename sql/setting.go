package sql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// Setting is what belongs to the data rather than to a process, as read at one moment.
type Setting struct {
	Grid  grid.Grid
	Since time.Time // first slot of this width: the ledger has no gaps before it

	Server Server // that it was read from
	Citus  bool   // the database is one of a Citus cluster

	clock   time.Time // the database's clock when the setting was read
	elapsed time.Time // a local instant, to measure the time since
}

// Server tells one database from another.
type Server struct {
	Host     string `json:"host"` // its address and port; empty: a unix socket
	Database string `json:"database"`
	Version  string `json:"version"` // of PostgreSQL, such as 15.18
}

// Now is the database's clock, without asking it again: its instant when the setting was read, plus what a local
// monotonic clock has measured since.
func (s Setting) Now() time.Time {
	return s.clock.Add(time.Since(s.elapsed))
}

// monotonic is for measuring, and never says what time it is: that is the database's to say.
var monotonic = time.Now //nolint:forbidigo // measures

// ReadSetting reads the settings. It returns ErrNotMigrated where the schema is older than this code, and ErrNewer where
// it is newer and says that code of this version must not use it, and an EngineError as RefuseEngine does.
func ReadSetting(ctx context.Context, db Pool, schema Schema) (Setting, error) {
	var s Setting
	pool := Sqlx(db)
	if pool == nil {
		return s, ErrNoDatabase
	}
	var seconds, since, version, usableFrom, clock int64
	var m Message
	m.Add(ReadSettings.In(schema), nil, func(row *sql.Rows) error {
		return row.Scan(&seconds, &since, &version, &usableFrom, &clock, &s.Server.Host, &s.Server.Database, &s.Server.Version, &s.Citus)
	})
	addEngine(&m)
	err := Retry(func() error {
		err := m.Read(ctx, pool)
		s.elapsed = monotonic() // after the answer, so that Now never runs ahead of the database
		return err
	})
	switch {
	case err == nil && version < SchemaVersion: // 0: there is no row
		return s, ErrNotMigrated
	case err != nil:
		return s, fmt.Errorf("read settings: %w", ExplainMissing(err))
	case usableFrom > SchemaVersion:
		return s, ErrNewer
	}
	s.Since, s.clock = time.UnixMicro(since).UTC(), time.UnixMicro(clock).UTC()
	s.Grid, err = grid.New(time.Duration(seconds) * time.Second)
	return s, err
}
