package rulestore

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// RightsError says what a login lacks on the table of a rule, which belongs to the application.
type RightsError struct {
	Line               int // of the rule in its file; 0: not known
	Rule, Table, Login string
	// Role is the role of prescient that it lacks, too. Empty: none.
	Role string
	// Grants are the statements that give its rights on the table.
	Grants []string
}

// Error returns the statements: the one that gives the role, and those for the owner of the table.
func (e *RightsError) Error() string {
	lacks, too := "login "+e.Login+" lacks", ""
	if e.Role != "" {
		lacks, too = fmt.Sprintf("%s the role %s: grant %[2]s to %s. It lacks", lacks, e.Role, e.Login), ", too"
	}
	message := fmt.Sprintf("%s rights on table %s%s. Its owner gives them: %s", lacks, e.Table, too,
		strings.Join(e.Grants, "; "))
	return (&rule.Problem{Line: e.Line, Rule: e.Rule, Message: message}).Error()
}

// rights are what a login may do with a table, and with the schema of the functions of triggers.
type rights struct {
	Login      string `db:"login"`
	Database   string `db:"database"`
	MayCopy    bool   `db:"may_copy"`
	MayUse     bool   `db:"may_use"`
	MayRead    bool   `db:"may_read"`
	MayTrigger bool   `db:"may_trigger"`
	// Roles tells that roles were made, one of which owns the functions of triggers. Otherwise the login
	// owns them.
	Roles bool `db:"roles"`
	// Operates tells that the login has the rights of an operator, if roles were made.
	Operates bool `db:"operates"`
	// FunctionsOwner owns the schema of the functions. Empty: there is no such schema. FunctionsOwn tells
	// that the login or a superuser does, and MayMake that the login may create it, or functions in it.
	FunctionsOwner string       `db:"functions_owner"`
	FunctionsOwn   sql.NullBool `db:"functions_own"`
	MayMake        bool         `db:"may_make"`
	// Untriggered has the partitions on which the login may create no triggers.
	Untriggered pq.StringArray `db:"untriggered"`
}

// foreign returns why the login must not create functions for triggers in their schema, or nothing. Its
// owner could replace one that another calls.
func (r rights) foreign(schema pgsql.Schema, create bool) string {
	functions := pg.Rules.In(schema)
	switch {
	case r.Roles && r.FunctionsOwner != functions:
		return fmt.Sprintf("the functions of its triggers would be in schema %s, which role %[1]s must own: "+
			"`prescient migrate roles` makes it", functions)
	case create && !r.Roles && r.FunctionsOwn.Valid && !r.FunctionsOwn.Bool:
		return fmt.Sprintf("the functions of its triggers would be in schema %s, which belongs to %s: apply with that "+
			"login, or make roles with `prescient migrate roles`", functions, r.FunctionsOwner)
	}
	return ""
}

// missing returns the statements that give the login what it lacks: to read the table, and to create
// its triggers if it shall.
func (r rights) missing(schema pgsql.Schema, t table, create bool) (grants []string) {
	add := func(on string, all ...string) {
		names := slices.DeleteFunc(all, func(name string) bool { return name == "" })
		if len(names) > 0 {
			grants = append(grants, fmt.Sprintf("grant %s on %s to %s", strings.Join(names, ", "), on, r.Login))
		}
	}
	lacks := func(may bool, name string) string {
		if may {
			return ""
		}
		return name
	}
	add("database "+r.Database, lacks(r.MayCopy, "temporary"))
	add("schema "+t.Namespace, lacks(r.MayUse, "usage"))
	add(t.Relation, lacks(r.MayRead, "select"), lacks(r.MayTrigger || !create, "trigger"))
	if create && len(r.Untriggered) > 0 {
		add(strings.Join(r.Untriggered, ", "), "trigger")
	}
	functions := pg.Rules.In(schema)
	switch {
	case r.MayMake || !create || r.Roles: // with roles, an operator may
	case r.FunctionsOwner == "":
		grants = append(grants, fmt.Sprintf("create schema %s authorization %s", functions, r.Login))
	default:
		add("schema "+functions, "usage", "create")
	}
	return grants
}

// OwnerError says that the triggers of a rule, or their functions, belong to another login.
type OwnerError struct {
	Err error // of the server
}

// Error names who may do it.
func (e *OwnerError) Error() string {
	return e.Err.Error() + ": do it with the login that applied the rule, or with one that is a member of it"
}

// owned makes a refusal of the server an OwnerError.
func owned(err error) error {
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return &OwnerError{err}
	}
	return err
}
