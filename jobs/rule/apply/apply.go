// Package apply applies the rules of a file to the tables of a database, as the command `prescient
// rules apply` does. It is for applications and tools that bring their rules with them.
package apply

import (
	"context"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Rules creates the triggers of the rules in a file, and lets the rows of their tables wait. Rules that
// the file does not have stay as they are. schema holds prescient's tables; the zero value means "prescient".
//
// It is idempotent. If it is interrupted, the next call goes on where it was. Any number of processes may
// call it at the same time. It changes nothing, and returns an error that says what to write into the
// rule, if steps of rows have passed and a rule does not say what happens to them. The error joins a
// [rule.Problem] for each mistake in the file.
func Rules(ctx context.Context, db pgsql.Pool, schema pgsql.Schema, file rule.File) error {
	store, err := rulestore.New(ctx, db, rulestore.Config{Schema: schema.String()})
	if err != nil {
		return err
	}
	_, err = store.Apply(ctx, file, nil)
	return err
}
