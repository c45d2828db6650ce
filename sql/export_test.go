package sql

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
)

// MigrateTo applies the migrations up to a version, in a database without the schema or with an
// older version of it.
func MigrateTo(ctx context.Context, db *sqlx.DB, schema Schema, version int64) error {
	if err := createSchema(ctx, db, schema); err != nil {
		return err
	}
	p, err := provider(db, schema, migrations())
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}

// MigrateWith applies the migrations and one more. It waits for locked tables as often as tries says.
func MigrateWith(ctx context.Context, db *sqlx.DB, text string, tries int) error {
	more := source{fmt.Sprintf("%05d_more", SchemaVersion+1), text}
	p, err := provider(db, "", append(slices.Clone(migrations()), more))
	if err != nil {
		return err
	}
	_, err = up(ctx, db, "", p, tries)
	return err
}

// FunctionsStep is the name of the step that replaces the functions.
const FunctionsStep = functionsStep
