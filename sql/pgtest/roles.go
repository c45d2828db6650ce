package pgtest

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
)

// DropRoles drops at the end of the test the roles whose names begin with a prefix, with all that
// is theirs in the database: roles are the server's, and outlive it. db is a superuser's.
func DropRoles(t testing.TB, db *sqlx.DB, prefix string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		var roles []string
		err := db.SelectContext(ctx, &roles, "select rolname from pg_roles where starts_with(rolname, $1)", prefix)
		for _, role := range roles {
			_, dropped := db.ExecContext(ctx, "drop owned by "+role+" cascade; drop role "+role)
			err = errors.Join(err, dropped)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
