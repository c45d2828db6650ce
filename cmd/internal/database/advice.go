package database

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs/stores"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Advice returns what to do about an error of a command, to be added to its text.
func Advice(ctx context.Context, f *factory.Factory, err error) string {
	if text := hint(err); text != "" {
		return text
	}
	return refusal(ctx, f, err)
}

// Hint returns the text of an error with the hint of the database, for commands that try again.
func Hint(f *factory.Factory, err error) string { return f.Named(err.Error() + hint(err)) }

// hint returns the database's hint about an error, or advice that the database lacks.
func hint(err error) string {
	answer, ok := errors.AsType[*pq.Error](err)
	switch {
	case !ok || answer.Code == pqerror.UndefinedFunction: // its hint is about types, but the schema is missing
		return ""
	case answer.Code == pqerror.UndefinedFile && strings.HasPrefix(answer.Message, "could not load library"):
		return "; if the files of PostgreSQL were replaced while it runs, restart it; the private one by: " +
			"prescient dev-db stop"
	case answer.Hint != "":
		return ". " + answer.Hint
	}
	return ""
}

// Roles has the role that each command with a database needs. An operator is also a runner, and a
// runner is also an app and a reader.
var Roles = map[string]pgsql.Role{
	"run": pgsql.Runner, "catch-up": pgsql.Runner, "daemon": pgsql.Runner,
	"serve": pgsql.Reader, "status": pgsql.Reader, "plan forecast": pgsql.Reader, "why": pgsql.Reader,
	"plan advise": pgsql.Reader, "doctor": pgsql.Reader,
	"install crontab": pgsql.Reader, "install systemd": pgsql.Reader, "install kubernetes": pgsql.Reader,
	"slots list": pgsql.Reader, "slots show": pgsql.Reader, "slots set-width": pgsql.Operator,
	"slots rewind": pgsql.Operator,
	"jobs list":    pgsql.Reader, "jobs add": pgsql.App, "jobs cancel": pgsql.App,
	"jobs reschedule": pgsql.App, "jobs retry": pgsql.Operator, "jobs pause": pgsql.Operator,
	"jobs resume": pgsql.Operator,
	"rules plan":  pgsql.Reader, "rules sql": pgsql.Reader, "rules list": pgsql.Reader, "rules show": pgsql.Reader,
	"rules test":  pgsql.Reader,
	"rules apply": pgsql.Operator, "rules pause": pgsql.Operator, "rules resume": pgsql.Operator,
	"rules remove": pgsql.Operator,
	"jobs history": pgsql.Reader, "jobs stats": pgsql.Reader, "jobs prune": pgsql.Operator,
	"schedules list": pgsql.Reader, "schedules show": pgsql.Reader, "schedules preview": pgsql.Reader,
	"schedules create": pgsql.Runner, "schedules update": pgsql.Runner, "schedules delete": pgsql.Runner,
	"schedules pause": pgsql.Runner, "schedules resume": pgsql.Runner, "schedules apply": pgsql.Runner,
	"schedules trigger": pgsql.Runner, "schedules backfill": pgsql.Runner,
	"events tail": pgsql.Reader, "events consumers": pgsql.Reader, "events ack": pgsql.Runner,
	"events forward": pgsql.Runner, "events forget": pgsql.Operator, "events prune": pgsql.Runner,
	"alerts list": pgsql.Reader, "alerts silence": pgsql.Runner,
	"events dead": pgsql.Reader, "events resend": pgsql.Runner, "events discard": pgsql.Runner,
	"stores list": pgsql.Reader, "stores drain": pgsql.Operator, "stores move": pgsql.Operator, "stores add": pgsql.Owner,
	"migrate up": pgsql.Owner, "migrate down": pgsql.Owner, "migrate status": pgsql.Reader, "migrate roles": pgsql.Owner,
}

// RoleError is the error of a command that needed another role than its own.
type RoleError struct {
	Err  error
	Role pgsql.Role
}

// Error returns the text of Err.
func (e *RoleError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RoleError) Unwrap() error { return e.Err }

// refusal returns advice for an error of the server about missing rights. It returns nothing if the
// login has the role that the command needs, because then it lacks other rights.
func refusal(ctx context.Context, f *factory.Factory, err error) string {
	role, known := Roles[strings.TrimPrefix(f.Command(), f.Name+" ")]
	if more, ok := errors.AsType[*RoleError](err); ok {
		role, known = more.Role, true
	}
	if !pgsql.HasState(err, pqerror.InsufficientPrivilege) || !known || pgsql.IsRowSecurity(err) ||
		errors.Is(err, pgsql.ErrCreateRole) || errors.Is(err, pgsql.ErrDropRole) {
		return ""
	}
	if of, ok := errors.AsType[*stores.Error](err); ok { // a store has its own login, roles and schema
		if s, err := f.FindStore(of.Store); err == nil {
			f = f.On(s)
		}
	}
	var h pgsql.Holder
	db, err := Connect(ctx, f)
	if err == nil {
		h, err = pgsql.ReadHolder(ctx, db, f.Schema(), role)
	}
	if err != nil || h.Holds {
		return "" // the error of the server stands alone
	}
	if text := ownership(h, f.Schema(), role); text != "" {
		return text
	}
	give := fmt.Sprintf("give it with grant %s to %s", role.In(f.Schema()), pq.QuoteIdentifier(h.Login))
	if !h.Made {
		give = fmt.Sprintf("make it with %s migrate roles, and %s", f.Self(), give)
	}
	return fmt.Sprintf("; %s lacks the role %s, which this needs: %s", h.Login, role.In(f.Schema()), give)
}

// ownership returns advice for a command that needs the owner of the schema before the roles are
// made. "migrate roles" cannot help it: that command needs the same rights.
func ownership(h pgsql.Holder, schema pgsql.Schema, role pgsql.Role) string {
	login := pq.QuoteIdentifier(h.Login)
	switch {
	case role != pgsql.Owner || h.Made:
		return ""
	case h.Owner != "" && !h.Owns:
		return fmt.Sprintf("; schema %s belongs to %s: connect as that role, or let it be given with grant %s to %s",
			schema, h.Owner, pq.QuoteIdentifier(h.Owner), login)
	case !h.MayCreate:
		return fmt.Sprintf("; %s may create no schema in database %s: let the owner of the database or a superuser run "+
			"grant create on database %s to %s", h.Login, h.Database, pq.QuoteIdentifier(h.Database), login)
	}
	return ""
}
