package rulestore

import (
	"fmt"
	"strings"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// RightsError says what a login lacks on the table of a rule, which belongs to the application.
type RightsError struct {
	Line               int // of the rule in its file; 0: not known
	Rule, Table, Login string
	// Grants are the statements that give it.
	Grants []string
}

// Error returns the statements, for the owner of the table.
func (e *RightsError) Error() string {
	message := fmt.Sprintf("login %s lacks rights on table %s. Its owner gives them: %s", e.Login, e.Table,
		strings.Join(e.Grants, "; "))
	return (&rule.Problem{Line: e.Line, Rule: e.Rule, Message: message}).Error()
}

// rights are what a login may do with a table.
type rights struct {
	Login      string `db:"login"`
	Database   string `db:"database"`
	MayCopy    bool   `db:"may_copy"`
	MayUse     bool   `db:"may_use"`
	MayCreate  bool   `db:"may_create"`
	MayRead    bool   `db:"may_read"`
	MayTrigger bool   `db:"may_trigger"`
	// OwnerMayUse and OwnerMayCreate are rights of the owner of the triggers' functions on the schema.
	OwnerMayUse    bool `db:"owner_may_use"`
	OwnerMayCreate bool `db:"owner_may_create"`
}

// missing returns the statements that give the login what it lacks: to read the table, and to create
// its triggers if it shall. It creates their functions as the role that owns them, whose rights on the
// schema it has as a member.
func (r rights) missing(t table, create bool) (grants []string) {
	add := func(to, on string, all ...string) {
		var names []string
		for _, name := range all {
			if name != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			grants = append(grants, fmt.Sprintf("grant %s on %s to %s", strings.Join(names, ", "), on, to))
		}
	}
	lacks := func(may bool, name string) string {
		if may {
			return ""
		}
		return name
	}
	add(r.Login, "database "+r.Database, lacks(r.MayCopy, "temporary"))
	mayUse, mayCreate := r.MayUse, r.MayCreate || !create
	if create && t.FunctionOwner != "" {
		add(t.FunctionOwner, "schema "+t.Namespace, lacks(r.OwnerMayUse, "usage"), lacks(r.OwnerMayCreate, "create"))
		mayUse, mayCreate = r.MayUse || !r.OwnerMayUse, true
	}
	add(r.Login, "schema "+t.Namespace, lacks(mayUse, "usage"), lacks(mayCreate, "create"))
	add(r.Login, t.Relation, lacks(r.MayRead, "select"), lacks(r.MayTrigger || !create, "trigger"))
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
	if pgsql.HasState(err, pqerror.InsufficientPrivilege) {
		return &OwnerError{err}
	}
	return err
}
