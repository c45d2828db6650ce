package pg

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Role says how a login uses the schema. Each Role is a role of the server with the privileges that
// this use needs.
type Role string

// The roles. Operator may do everything that Runner and Rules may; Runner everything that App and
// Reader may.
const (
	// Owner owns the tables and functions, and may migrate.
	Owner Role = "owner"
	// App may call the functions that enqueue, cancel and move checks, and touch no table.
	App Role = "app"
	// Reader may read everything.
	Reader Role = "reader"
	// Runner runs slots, catches up, publishes events and changes schedules.
	Runner Role = "runner"
	// Rules owns the functions of the triggers of rules. It may let rows of rules wait, and cancel them.
	Rules Role = "rules"
	// Operator pauses, retries, prunes, acknowledges events, applies rules and changes the width.
	Operator Role = "operator"
)

// In returns the name of the role for a schema, such as prescient_app.
func (r Role) In(schema Schema) string { return schema.String() + "_" + string(r) }

// Holder says whether a login has a Role.
type Holder struct {
	Login string
	Made  bool // the role exists
	Holds bool // the login has the rights of the role; a superuser has those of every role that exists

	Owner     string // the owner of the schema; empty: there is no such schema
	Owns      bool   // the login has the rights of that owner
	Database  string
	MayCreate bool // schemas in the database
}

// ReadHolder reports whether the login of db has a Role, and what else its right to migrate depends
// on. It needs no right on the schema.
func ReadHolder(ctx context.Context, db Pool, schema Schema, role Role) (h Holder, err error) {
	err = ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		return One(ctx, tx, RoleHeld.In(schema), []any{role.In(schema), schema.String()},
			&h.Login, &h.Made, &h.Holds, &h.Owner, &h.Owns, &h.Database, &h.MayCreate)
	})
	return h, err
}

// RolesLosing returns the roles that own the tables of a schema and lose them by MakeRoles, in the
// order of their names. A member of the owner role, the login of db and superusers lose nothing.
func RolesLosing(ctx context.Context, db Pool, schema Schema) (names []string, err error) {
	err = ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &names, RolesLose.In(schema), schema.String(), Owner.In(schema))
	})
	if err != nil {
		return nil, fmt.Errorf("find the roles that lose the tables of schema %s: %w", schema, err)
	}
	return names, nil
}
