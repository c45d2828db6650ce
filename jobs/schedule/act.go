package schedule

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/sqltext"
	"github.com/prescient-go/prescient/jobs"
)

// Act tells what a schedule does at each instant. The zero Act publishes an event.
type Act struct {
	// SQL is one statement. It runs once for each instant, in the transaction that records the instant, with the
	// time zone of the schedule. In it current_setting('prescient.instant')::timestamptz is the instant.
	// At most 100,000 bytes.
	SQL string
	// Role runs the statement. The login of the run must be a member of it. Empty: the login of the run.
	Role string
	// Timeout is how long the statement may run. Whole seconds, at most MaxSQLTimeout. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Job is the name of a job. At each instant a check of it is enqueued for the next slot, with entity "schedule",
	// the ID of the schedule as entity key, the ID of the Occurrence as item key, and the Occurrence as payload.
	Job string
	// Notify is the name of a receiver of the settings, which gets a message at each instant.
	Notify string
	// Text is the message, as a template of package text/template, with {{.id}}, {{.at}} and {{.payload}}; the fields
	// of an object are {{.payload.customer}}. Defaults to a sentence with all of them. At most 10,000 bytes.
	Text string
}

// MaxSQLTimeout is the most that Act.Timeout may be.
const MaxSQLTimeout = time.Hour

const maxSQL = 100_000

// check returns a jobs.FieldError for each wrong field of an act.
func (a Act) check(payload json.RawMessage) error {
	if a == (Act{}) {
		return nil
	}
	var errs []error
	field := func(name, format string, args ...any) {
		errs = append(errs, &jobs.FieldError{Field: name, Message: fmt.Sprintf(format, args...)})
	}
	switch word := sqltext.Closes(a.SQL); {
	case a.SQL != "" && a.Job+a.Notify != "":
		field("sql", "must not stand beside job or notify: a schedule does one thing")
	case a.Job != "" && a.Notify != "":
		field("job", "must not stand beside notify: a schedule does one thing")
	case a.SQL != "" && payload != nil:
		field("payload", "must not stand beside sql, which has no event: write the values into the statement")
	case len(a.SQL) > maxSQL:
		field("sql", "must be at most %d bytes, is %d", maxSQL, len(a.SQL))
	case slices.Contains(lonely, sqltext.First(a.SQL)):
		field("sql", "must not %s: the statement runs in a transaction, and without a client's file", sqltext.First(a.SQL))
	case hasParameter(a.SQL):
		field("sql", "must not have parameters such as $1: current_setting('prescient.instant')::timestamptz is the instant")
	case word != "":
		field("sql", "must not %s: the statement runs in the transaction that records it", word)
	}
	switch {
	case a.Role != "" && a.SQL == "":
		field("role", "must stand beside sql")
	case a.Timeout != 0 && a.SQL == "":
		field("timeout", "must stand beside sql")
	case a.Timeout < 0 || a.Timeout > MaxSQLTimeout || a.Timeout%time.Second != 0:
		field("timeout", "must be whole seconds, up to 1h")
	}
	errs = append(errs, checkText("role", a.Role))
	if a.SQL != "" && (len(a.SQL) <= maxSQL) {
		errs = append(errs, checkEncoding("sql", a.SQL))
	}
	if problem := a.problemOfText(payload); problem != "" {
		field("text", "%s", problem)
	}
	if problem := message.CheckReceiver(a.Notify); problem != "" {
		field("notify", "%s", problem)
	}
	bad := jobs.Key{JobExec: a.Job}.ValidateJob(reserved.Caller{})
	if wrong, is := errors.AsType[*jobs.FieldError](bad); is && a.Job != "" {
		field("job", "%s", wrong.Message)
	}
	if reserved.IsJob(a.Job) {
		field("job", "must not be %s, which runs the schedules", a.Job)
	}
	return errors.Join(errs...)
}

// lonely are the first words of statements that cannot run in a transaction, or that move a file.
var lonely = []string{"copy", "vacuum"}

// hasParameter reports whether a statement has a parameter such as $1.
func hasParameter(text string) bool {
	for rest := text; rest != ""; {
		n, kind := sqltext.Next(rest)
		if kind == sqltext.Other && len(rest) > 1 && rest[0] == '$' && rest[1] >= '0' && rest[1] <= '9' {
			return true
		}
		rest = rest[n:]
	}
	return false
}

// statement returns what the act is without its other fields: what only an operator may change.
func (a Act) statement() Act { return Act{SQL: a.SQL, Role: a.Role, Timeout: a.Timeout} }

// ErrStatement is returned if the login may not write the statement of a schedule. A runner may not: the login of the
// runs executes it.
var ErrStatement = errors.New("the statement of a schedule needs the role of an operator")

// setActs writes the acts of schedules whose statement changes.
func (s *Store) setActs(ctx context.Context, tx jobs.DB, specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, pg.ScheduleAct.In(s.schema), pg.Columns(specs, func(s Spec) []string {
		return []string{s.ID, s.Act.SQL, s.Act.Role, seconds(s.Act.Timeout), s.Act.Job, s.Act.Notify, s.Act.Text}
	})...)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return err
}

// request returns the check that is enqueued for an occurrence.
func (a Act) request(o Occurrence, at time.Time) jobs.Request {
	return jobs.Request{
		JobExec: a.Job, EntityName: EntityName, EntityKey: o.ScheduleID, ItemKey: o.ID, CheckAt: at, Payload: o.data(),
	}
}

// preparer is a transaction that lets the server parse a statement.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// parse lets the server parse the statements of schedules, as their roles. A jobs.FieldError says what it refuses. The
// transaction stays as it was. A transaction that cannot prepare statements, such as one of pgx, learns of a mistake
// at the first instant. name adds the ID to the error of one of several schedules.
func (s *Store) parse(ctx context.Context, tx jobs.DB, specs []Spec, name func(id string, err error) error) error {
	db, able := tx.(preparer)
	var errs []error
	roles := map[string]*jobs.FieldError{} // what is wrong with each: many schedules have the same one
	for _, spec := range specs {
		if spec.Act.SQL == "" {
			continue
		}
		wrong, known := roles[spec.Act.Role]
		if !known {
			var err error
			if wrong, err = s.checkRole(ctx, tx, spec.Act.Role); err != nil {
				return err
			}
			roles[spec.Act.Role] = wrong
		}
		if wrong != nil && len(errs) < maxListed {
			errs = append(errs, name(spec.ID, wrong))
		}
		if !able {
			continue
		}
		refused, err := parseAs(ctx, tx, db, spec.Act)
		if err != nil {
			return err
		}
		if refused != nil && len(errs) < maxListed {
			errs = append(errs, name(spec.ID, &jobs.FieldError{Field: "sql", Message: refused.Error()}))
		}
	}
	return errors.Join(errs...)
}

// checkRole returns what is wrong with a role that no login of the runs may take, if it is known which logins run.
func (s *Store) checkRole(ctx context.Context, tx jobs.DB, role string) (wrong *jobs.FieldError, err error) {
	if role == "" {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	var login sql.NullString
	if err := pg.One(ctx, tx, pg.ScheduleRefusing.In(s.schema), []any{role}, &login); err != nil || !login.Valid {
		return nil, err
	}
	return &jobs.FieldError{Field: "role", Message: fmt.Sprintf(
		"must be a role that a login of the runs may take: grant %s to %s",
		pq.QuoteIdentifier(role), pq.QuoteIdentifier(login.String))}, nil
}

// parseAs returns why the server refuses the statement of an act.
func parseAs(ctx context.Context, tx jobs.DB, db preparer, a Act) (refused *pq.Error, err error) {
	if _, err := tx.ExecContext(ctx, "savepoint prescient_schedule"); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "set local search_path = "+searchPath); err != nil {
		return nil, err
	}
	wrong := takeRole(ctx, tx, a)
	isOurs := wrong == nil && a.Role != ""
	if wrong == nil {
		wrong = prepare(ctx, db, a.SQL)
	}
	found, is := errors.AsType[*pq.Error](wrong)
	switch {
	case wrong != nil && !is:
		return nil, wrong
	case is && found.Code == pqerror.InsufficientPrivilege && !isOurs:
		// The login of the runs may be a member of the role, or have the right.
	case pg.IsMistake(wrong):
		refused = found
	}
	_, err = tx.ExecContext(ctx, "rollback to savepoint prescient_schedule; release savepoint prescient_schedule")
	return refused, err
}

func prepare(ctx context.Context, db preparer, text string) error {
	stmt, err := db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	return nil
}

// takeRole takes the role of an act until the end of the transaction, or of the savepoint. The role may have no
// replayed clock, because only a runner may set one.
func takeRole(ctx context.Context, tx jobs.DB, a Act) error {
	if a.Role == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "set local prescient_caller.clock = ''; set local role "+pq.QuoteIdentifier(a.Role))
	return err
}

// execute runs the statement of a schedule for an instant, and returns how many rows the server names. The settings are
// then those of before. After an error only a savepoint brings them back.
func (s dueSchedule) execute(ctx context.Context, tx *sqlx.Tx, at time.Time) (rows int64, err error) {
	var role, path, zone, timeout, patience, clock string
	const read = "select current_setting('role'), current_setting('search_path'), current_setting('timezone'), " +
		"current_setting('statement_timeout'), current_setting('lock_timeout'), " +
		"coalesce(current_setting('prescient_caller.clock', true), '')"
	if err := tx.QueryRowContext(ctx, read).Scan(&role, &path, &zone, &timeout, &patience, &clock); err != nil {
		return 0, err
	}
	const set = "select set_config('search_path', $1, true), set_config('timezone', $2, true), " +
		"set_config('statement_timeout', $3, true), set_config('lock_timeout', '0', true), " +
		"set_config('prescient.instant', $4, true)"
	_, err = tx.ExecContext(ctx, set, searchPath, s.zone, strconv.FormatInt(s.timeout().Milliseconds(), 10),
		at.UTC().Format(time.RFC3339))
	if err == nil {
		err = takeRole(ctx, tx, s.act)
	}
	if err != nil {
		return 0, err
	}
	stmt, err := tx.PrepareContext(ctx, s.act.SQL) // which refuses a second statement
	if err != nil {
		return 0, err
	}
	defer func() { _ = stmt.Close() }()
	result, err := stmt.ExecContext(ctx)
	if err != nil {
		return 0, err
	}
	if rows, err = result.RowsAffected(); err != nil {
		rows = 0 // the server names none for such a statement
	}
	const back = "select set_config('role', $1, true), set_config('search_path', $2, true), " +
		"set_config('timezone', $3, true), set_config('statement_timeout', $4, true), " +
		"set_config('lock_timeout', $5, true), set_config('prescient_caller.clock', $6, true)"
	_, err = tx.ExecContext(ctx, back, role, path, zone, timeout, patience, clock)
	return rows, err
}

// searchPath lets a statement find no name without its schema. Another login, such as that of the runs, may have
// another search_path.
const searchPath = "pg_catalog, pg_temp"

func (s dueSchedule) timeout() time.Duration {
	if s.act.Timeout == 0 {
		return DefaultTimeout
	}
	return s.act.Timeout
}
