package pgxjobs

import (
	"context"
	"database/sql/driver"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// copier is implemented by the types with the COPY of pgx.
type copier interface {
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error)
}

var copyText = regexp.MustCompile(`(?m)^copy (\S+)\.(\S+) \(([^)]*)\)\s+from stdin`)

// copyRows runs a statement "copy ... from stdin" for a table whose name is qualified. It returns
// how many rows the server wrote.
func copyRows(ctx context.Context, on copier, query string, rows iter.Seq[[]any]) (written int64, err error) {
	m := copyText.FindStringSubmatch(query)
	table := pgx.Identifier{strings.Trim(m[1], `"`), m[2]}
	columns := strings.FieldsFunc(m[3], func(c rune) bool { return strings.ContainsRune(", \n", c) })
	next, stop := iter.Pull(rows)
	defer stop()
	written, err = on.CopyFrom(ctx, table, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, _ := next()
		return row, nil
	}))
	return written, explain(err)
}

// stmt runs its query when it is executed: pgx itself keeps frequent statements prepared. For COPY
// it follows lib/pq: each call with arguments adds a row, and a call without ends it.
type stmt struct {
	conn  *conn
	query string
	rows  [][]any
}

func (s *stmt) Close() error                               { return nil }
func (s *stmt) NumInput() int                              { return -1 }
func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	switch {
	case !copyText.MatchString(s.query):
		return s.conn.ExecContext(ctx, s.query, args)
	case len(args) > 0:
		s.rows = append(s.rows, values(args))
		return driver.ResultNoRows, nil
	}
	all := s.rows
	s.rows = nil
	written, err := copyRows(ctx, s.conn.on, s.query, slices.Values(all))
	return driver.RowsAffected(written), err
}
