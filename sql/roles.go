package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
)

//go:embed roles.sql
var roles string

// maxRoleSchema leaves room for the longest role in the 63 bytes of a name.
const maxRoleSchema = maxName - len("_operator")

// ErrCreateRole is returned if a role is missing and the login may not create it.
var ErrCreateRole = errors.New("the roles are missing, and making them needs CREATEROLE: " +
	"connect as a role that has it, or let an administrator run the script of `prescient migrate roles --dry-run`")

// MakeRoles makes the six roles, hands the schema over to the owner and grants each role what it
// needs. Idempotent. The schema must exist. The login of db becomes a member of the owner.
//
// It may run beside applications and runs, as Migrate. Returns ErrLocked if a table stays locked,
// ErrCreateRole if a role is missing and db's login may not create roles, and ErrNewer for a schema
// with objects that this code does not know.
func MakeRoles(ctx context.Context, db Pool, schema Schema) error {
	script, err := rolesScript(schema)
	if err != nil {
		return err
	}
	makes := func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, script); err != nil {
			return explainRole(err)
		}
		var version int
		err := tx.GetContext(ctx, &version, pg.SchemaVersionIs.In(schema))
		if err == nil && version > SchemaVersion {
			err = ErrNewer
		}
		return err
	}
	err = patiently(ctx, db, schema, lockTries, func() error { return InTx(ctx, db, makes) })
	if err != nil {
		return fmt.Errorf("make the roles of schema %s: %w", schema, pg.ExplainMissing(err))
	}
	return nil
}

// explainRole adds ErrCreateRole to the error of a login that may not create a role.
func explainRole(err error) error {
	if pg.HasState(err, pqerror.InsufficientPrivilege) && pg.Routine(err) == "CreateRole" {
		return fmt.Errorf("%w (%w)", ErrCreateRole, err)
	}
	return err
}

// PrintRoles writes the work of MakeRoles as a script for psql, which an administrator may review
// and run.
func PrintRoles(_ reserved.Caller, w io.Writer, schema Schema) error {
	script, err := rolesScript(schema)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "begin;\n\n"+script+"\ncommit;\n")
	return err
}

func rolesScript(schema Schema) (string, error) {
	if name := schema.String(); len(name) > maxRoleSchema {
		return "", fmt.Errorf("schema %s: a role's name begins with it, so it must not be longer than %d letters", name,
			maxRoleSchema)
	}
	script := strings.ReplaceAll(roles, string(DefaultSchema), schema.String())
	tables, types, routines := Objects(reserved.Caller{})
	return strings.NewReplacer(
		"{briefly}", waitBriefly,
		"{tables}", literals(schema, tables),
		"{types}", literals(schema, types),
		"{routines}", literals(schema, routines),
	).Replace(script), nil
}

// literals returns the qualified names of objects of the schema as SQL literals.
func literals(schema Schema, names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, pq.QuoteLiteral(schema.qualify("prescient."+name)))
	}
	return strings.Join(all, ", ")
}

// rolesMade tells whether the schema belongs to the owner role.
func rolesMade(ctx context.Context, tx pg.Querier, schema Schema) (made bool, err error) {
	err = pg.One(ctx, tx, pg.RolesMade.In(schema), []any{schema.String(), pg.Owner.In(schema)}, &made)
	return made, err
}

// keepRoles grants the roles what they lack, if the schema belongs to the owner role.
func keepRoles(ctx context.Context, db Pool, schema Schema) error {
	var made bool
	err := ReadTx(ctx, db, func(tx *sqlx.Tx) (err error) {
		made, err = rolesMade(ctx, tx, schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("find the roles of schema %s: %w", schema, err)
	}
	if !made {
		return nil
	}
	if err := MakeRoles(ctx, db, schema); !errors.Is(err, ErrNewer) {
		return err
	}
	return nil // the login that migrated the schema grants what it wants
}

// ErrDropRole is returned for a role that still owns objects or has privileges, or that the login
// may not drop.
var ErrDropRole = errors.New("the role cannot be dropped")

// DropRoles takes the privileges in the schema from the six roles, and drops the roles. The tables
// must be gone: see MigrateDown. Returns ErrDropRole, and drops none, if a role has anything else
// in this database or another. Returns the roles that it dropped. Idempotent.
//
// It never uses drop owned: an application's objects may belong to a role, too.
func DropRoles(_ reserved.Caller, ctx context.Context, db Pool, schema Schema) (dropped []string, err error) {
	err = InTx(ctx, db, func(tx *sqlx.Tx) error {
		dropped = nil
		for _, role := range []pg.Role{pg.Operator, pg.Owner, pg.Runner, pg.Rules, pg.Reader, pg.App} {
			there, err := dropRole(ctx, tx, schema, pq.QuoteIdentifier(role.In(schema)))
			if err != nil {
				return fmt.Errorf("drop role %s: %w", role.In(schema), err)
			}
			if there {
				dropped = append(dropped, role.In(schema))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("drop the roles of schema %s: %w", schema, err)
	}
	return dropped, nil
}

// dropRole drops a role if there is one.
func dropRole(ctx context.Context, tx *sqlx.Tx, schema Schema, role string) (there bool, err error) {
	var schemaThere bool
	const look = `select to_regrole($1) is not null, exists (select from pg_catalog.pg_namespace where nspname = $2)`
	if err := tx.QueryRowContext(ctx, look, role, schema.String()).Scan(&there, &schemaThere); err != nil || !there {
		return there, err
	}
	if schemaThere {
		if _, err := tx.ExecContext(ctx,
			"revoke all on schema "+pq.QuoteIdentifier(schema.String())+" from "+role); err != nil {
			return there, err
		}
	}
	_, err = tx.ExecContext(ctx, "drop role "+role)
	switch e, _ := errors.AsType[*pq.Error](err); {
	case pg.HasState(err, pqerror.DependentObjectsStillExist):
		return there, fmt.Errorf("%w, because other objects still use it: %s. Reassign or revoke them in their database, "+
			"and drop the role again", ErrDropRole, strings.ReplaceAll(e.Detail, "\n", ", "))
	case pg.HasState(err, pqerror.InsufficientPrivilege):
		return there, fmt.Errorf("%w: the login needs CREATEROLE and the admin option on it (%w)", ErrDropRole, err)
	}
	return there, err
}
