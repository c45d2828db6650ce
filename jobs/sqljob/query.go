package sqljob

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulesession"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// answer is the result of the query for a key.
type answer struct {
	event json.RawMessage // nil: none
	next  *time.Time
	err   error // the query contradicts itself
	large bool  // the event exceeds mostAnswers bytes, and was not read
}

// mostAnswers bounds the bytes of keys and events in the answers for a page. Publishing them takes
// some ten times as much memory.
const mostAnswers = 16 << 20

// errTooLarge is the error of a page whose answers exceed that.
var errTooLarge = errors.New("the answer is too large")

// divided is an error that the runner looks for the rows of, in each half of the batch. Its text tells
// the operator nothing of that.
type divided struct{ error }

func (divided) Is(target error) bool { return target == jobs.ErrDivide }
func (d divided) Unwrap() error      { return d.error }

// settings make a query mean the same for each login and each database, as those of a rule do. With
// row_security off, a policy that would hide rows is an error: a key that the query does not return is
// finished.
var settings = rulesession.Understand + "; set local row_security = off"

// ask runs the query for keys. The result leaves out keys that need nothing.
func (b *binding) ask(ctx context.Context, keys []string) (answers map[string]answer, err error) {
	asked := make(map[string]bool, len(keys))
	for _, key := range keys {
		asked[key] = true
	}
	err = b.readOnly(ctx, func(tx *sqlx.Tx) error {
		answers = map[string]answer{}
		query, err := b.bounded(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, query, pq.Array(keys))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		return b.read(rows, asked, answers)
	})
	if err != nil {
		b.wrapped.Store(nil) // the columns of the query may have changed
	}
	return answers, b.explain(err)
}

// explain adds to an error of the server what its text does not tell.
func (b *binding) explain(err error) error {
	switch {
	case pg.HasState(err, pqerror.QueryCanceled):
		return divided{fmt.Errorf("%w (its timeout is %s)", err, b.Timeout)}
	case pg.IsRowSecurity(err):
		return fmt.Errorf("%w. Rows that it hides would look finished: let the query run as a role "+
			"with bypassrls, or as the owner of the table, or call a security definer function of such a role", err)
	}
	return err
}

// bounded returns the query with the same columns and one more, which marks a row whose event is
// too large. Such a row gets a null event, because the driver reads a row whole, and an event may
// have a gigabyte.
func (b *binding) bounded(ctx context.Context, tx *sqlx.Tx) (string, error) {
	if known := b.wrapped.Load(); known != nil {
		return *known, nil
	}
	names, err := checkColumns(ctx, tx, b.Query)
	if err != nil {
		return "", err
	}
	list, large := "", "false"
	for _, name := range names {
		switch name {
		case "event":
			large = fmt.Sprintf("coalesce(octet_length(q.event::text) > %d, false)", mostAnswers)
			list += fmt.Sprintf("case when octet_length(q.event::text) <= %d then q.event end as event, ", mostAnswers)
		default:
			list += "q." + name + ", " // entity_key or next
		}
	}
	// The offset keeps the query apart, so that the server computes each event once.
	query := fmt.Sprintf("select %s%s as prescient_large from (select * from (\n%s\n) as q offset 0) as q", list,
		large, plainQuery(b.Query))
	b.wrapped.Store(&query)
	return query, nil
}

// largeEvent returns the error of a row whose event is too large.
func (b *binding) largeEvent(key string) error {
	return fmt.Errorf("query of job %q: the event for entity_key %q has more than %d MiB. "+
		"Select what its consumers need, or where they find it", b.Name, key, mostAnswers>>20)
}

// readOnly runs fn in a transaction in which a query can neither write nor exceed its timeout. It
// also works on a hot standby.
func (b *binding) readOnly(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	limits := fmt.Sprintf("set local statement_timeout = %d; ", b.Timeout.Milliseconds()) + settings
	if b.Role != "" {
		limits += "; set local role " + pq.QuoteIdentifier(b.Role)
	}
	db, err := b.DB(ctx)
	if err != nil {
		return err
	}
	return pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, limits); err != nil {
			return fmt.Errorf("limit the transaction: %w", err)
		}
		return fn(tx)
	})
}

// read fills in answers.
func (b *binding) read(rows *sql.Rows, asked map[string]bool, answers map[string]answer) error {
	cols, err := columnsOf(rows)
	if err != nil {
		return err
	}
	size := 0
	for rows.Next() {
		key, a, err := cols.scan(rows)
		if err != nil {
			return err
		}
		if !asked[key] {
			return divided{fmt.Errorf("it returned entity_key %q, which is not in $1: "+
				"it must return keys as they were given, and no others", key)}
		}
		if _, twice := answers[key]; twice {
			a = answer{err: fmt.Errorf("the query returned entity_key %q more than once", key)}
		}
		if a.large {
			a.err = b.largeEvent(key)
		}
		if size += len(key) + len(a.event); size > mostAnswers {
			return errTooLarge
		}
		answers[key] = a
	}
	return rows.Err()
}

// columns holds the positions of the known columns in a row; -1: the column is missing.
type columns struct{ key, event, next, large, count int }

// columnsOf refuses columns that break the rules of the package documentation.
func columnsOf(rows *sql.Rows) (columns, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return columns{}, err
	}
	c := columns{-1, -1, -1, -1, len(types)}
	places := map[string]*int{"entity_key": &c.key, "event": &c.event, "next": &c.next, "prescient_large": &c.large}
	var problems []error
	for i, column := range types {
		name, kind := column.Name(), column.DatabaseTypeName()
		place := places[name]
		switch {
		case place == nil:
			problems = append(problems, fmt.Errorf("column %q is not known: want entity_key, event and next", name))
			continue
		case *place >= 0:
			problems = append(problems, fmt.Errorf("column %q is there twice", name))
		case name == "event" && kind != "JSON" && kind != "JSONB":
			problems = append(problems, fmt.Errorf("column event is of type %s: want json or jsonb", strings.ToLower(kind)))
		case name == "next" && kind != "TIMESTAMPTZ":
			problems = append(problems, fmt.Errorf("column next is of type %s: want timestamptz", strings.ToLower(kind)))
		}
		*place = i
	}
	if c.key < 0 {
		problems = append(problems, errors.New("column entity_key is missing"))
	}
	if c.event < 0 && c.next < 0 {
		problems = append(problems, errors.New("columns event and next are missing: nothing would come of it"))
	}
	return c, errors.Join(problems...)
}

// scan reads a row.
func (c columns) scan(rows *sql.Rows) (key string, a answer, err error) {
	var name sql.NullString
	var data []byte
	var next any // a time, or a text such as infinity
	dest := make([]any, c.count)
	dest[c.key] = &name
	if c.event >= 0 {
		dest[c.event] = &data
	}
	if c.next >= 0 {
		dest[c.next] = &next
	}
	large := false
	if c.large >= 0 {
		dest[c.large] = &large
	}
	if err := rows.Scan(dest...); err != nil {
		return "", answer{}, err
	}
	if !name.Valid {
		return "", answer{}, divided{errors.New("it returned a row whose entity_key is null")}
	}
	if large {
		return name.String, answer{large: true}, nil
	}
	a.event = data
	switch next := next.(type) {
	case nil:
	case time.Time:
		a.next = &next
	default:
		a = answer{err: fmt.Errorf("the query returned next %s for entity_key %q: want a finite instant, or null",
			next, name.String)}
	}
	return name.String, a, nil
}

// Check tests whether the query of cfg can run, without running it: the server must understand it,
// the role must be allowed, and the columns must be right. It uses only the fields of cfg that
// concern the query. A binding that fails affects only its own rows, whose errors say the same.
func Check(ctx context.Context, cfg Config) error {
	if cfg.DB == nil {
		return fmt.Errorf("query of job %q: DB must be set", cfg.Name)
	}
	b := &binding{Config: withDefaults(cfg)}
	err := b.readOnly(ctx, func(tx *sqlx.Tx) error {
		if err := understood(ctx, tx, b.Query); err != nil {
			return err
		}
		query, err := b.bounded(ctx, tx)
		if err != nil {
			return err
		}
		if err := understood(ctx, tx, query); err != nil {
			return fmt.Errorf("it must be one query that can stand in parentheses: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("query of job %q: %w", cfg.Name, err)
	}
	return nil
}

// understood returns the error of a query that the server does not understand.
func understood(ctx context.Context, tx *sqlx.Tx, query string) error {
	stmt, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	return nil
}

// checkColumns opens a cursor. The server then plans the query and tests the rights of the role, and runs nothing until
// something is fetched. It returns the names of the columns, and refuses what is no query.
func checkColumns(ctx context.Context, tx *sqlx.Tx, query string) (names []string, err error) {
	if _, err := tx.ExecContext(ctx, "declare prescient_check no scroll cursor for "+query,
		pq.Array([]string{})); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "fetch 0 from prescient_check")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	if _, err := columnsOf(rows); err != nil {
		return nil, err
	}
	if names, err = rows.Columns(); err != nil {
		return nil, err
	}
	return names, rows.Err()
}
