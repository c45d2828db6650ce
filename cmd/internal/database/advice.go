package database

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
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
var Roles = map[string]pg.Role{
	"run": pg.Runner, "catch-up": pg.Runner, "daemon": pg.Runner,
	"serve": pg.Reader, "status": pg.Reader, "plan forecast": pg.Reader, "why": pg.Reader,
	"plan advise": pg.Reader, "doctor": pg.Reader,
	"install crontab": pg.Reader, "install systemd": pg.Reader, "install kubernetes": pg.Reader,
	"slots list": pg.Reader, "slots show": pg.Reader, "slots set-width": pg.Operator,
	"slots rewind": pg.Operator,
	"jobs list":    pg.Reader, "jobs add": pg.App, "jobs cancel": pg.App,
	"jobs reschedule": pg.App, "jobs retry": pg.Operator, "jobs pause": pg.Operator,
	"jobs resume": pg.Operator, "jobs run": pg.Runner,
	"rules plan": pg.Reader, "rules sql": pg.Reader, "rules list": pg.Reader, "rules show": pg.Reader,
	"rules test":  pg.Reader,
	"rules apply": pg.Operator, "rules pause": pg.Operator, "rules resume": pg.Operator,
	"rules remove": pg.Operator,
	"jobs history": pg.Reader, "jobs stats": pg.Reader, "jobs prune": pg.Runner,
	"schedules list": pg.Reader, "schedules show": pg.Reader, "schedules preview": pg.Reader,
	"schedules create": pg.Runner, "schedules update": pg.Runner, "schedules delete": pg.Runner,
	"schedules pause": pg.Runner, "schedules resume": pg.Runner, "schedules apply": pg.Runner,
	"schedules trigger": pg.Runner, "schedules backfill": pg.Runner,
	"events tail": pg.Reader, "events consumers": pg.Reader, "events ack": pg.Runner,
	"events forward": pg.Runner, "events forget": pg.Operator, "events prune": pg.Runner,
	"alerts list": pg.Reader, "alerts silence": pg.Runner, "alerts ack": pg.Operator,
	"events dead": pg.Reader, "events resend": pg.Runner, "events discard": pg.Runner,
	"stores list": pg.Reader, "stores drain": pg.Operator, "stores move": pg.Operator, "stores add": pg.Owner,
	"migrate up": pg.Owner, "migrate down": pg.Owner, "migrate status": pg.Reader, "migrate roles": pg.Owner,
}

// RoleError is the error of a command that needed another role than its own.
type RoleError struct {
	Err  error
	Role pg.Role
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
	if !pg.HasState(err, pqerror.InsufficientPrivilege) || !known || pg.IsRowSecurity(err) ||
		errors.Is(err, pgsql.ErrCreateRole) || errors.Is(err, pgsql.ErrDropRole) {
		return ""
	}
	if of, ok := errors.AsType[*stores.Error](err); ok { // a store has its own login, roles and schema
		if s, err := f.FindStore(of.Store); err == nil {
			f = f.On(s)
		}
	}
	var h pg.Holder
	db, err := Connect(ctx, f)
	if err == nil {
		h, err = pg.ReadHolder(ctx, db, f.Schema(), role)
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
func ownership(h pg.Holder, schema pgsql.Schema, role pg.Role) string {
	login := pq.QuoteIdentifier(h.Login)
	switch {
	case role != pg.Owner || h.Made:
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
