package sql

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// MigrateTo applies the migrations up to a version, in a database without the schema or with an
// older version of it.
func MigrateTo(ctx context.Context, db *sqlx.DB, schema Schema, version int64) error {
	if err := createSchema(ctx, db, schema); err != nil {
		return err
	}
	p, err := provider(db, schema)
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}

// FromFile is the statement that a .sql file holds.
func FromFile(text []byte) Statement { return Statement{text: expand(string(text))} }
