package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Message is a list of statements that go to the server together, with their parameters written as
// literals. It costs one round trip, and a process that stops in its middle holds no locks. The
// zero value is an empty message.
type Message struct {
	text  strings.Builder
	parts []part
	scans []func(row *sql.Rows) error
	err   error // the first statement that cannot be written
}

// part is a statement of a message, or the settings of one Do.
type part struct {
	text string
	scan func(row *sql.Rows) error // nil: the statement returns no rows
}

// ErrEnough is returned by a scan function to skip the remaining rows.
var ErrEnough = errors.New("enough rows")

// Do adds a text without parameters that returns no rows, such as settings.
func (m *Message) Do(text string) { m.add(part{text: text}) }

func (m *Message) add(p part) {
	m.text.WriteString(p.text)
	m.text.WriteString(";\n")
	m.parts = append(m.parts, p)
}

// Add adds a statement that returns rows, and the function that scans each row. If a statement
// cannot be written, such as for a parameter without a literal, the message is not sent. The call
// that would send it returns the first such error at once.
func (m *Message) Add(query string, args []any, scan func(row *sql.Rows) error) {
	text, err := inline(query, args)
	if err != nil {
		m.fail(err)
		return
	}
	m.add(part{text, scan})
	m.scans = append(m.scans, scan)
}

// fail keeps the first error.
func (m *Message) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Commit sends the message as one transaction with the given settings, on a connection of its own.
// If the error is neither the server's nor that of [Message.Add], the transaction may have been
// committed.
func (m *Message) Commit(ctx context.Context, db *sqlx.DB, settings string) error {
	switch {
	case m.err != nil:
		return m.err
	case !Several(db):
		return m.commitEach(ctx, db, settings)
	}
	// On a connection that the caller holds, database/sql repeats nothing silently.
	conn, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answered, err := m.send(ctx, conn, beginMessage(settings)+m.text.String()+"commit")
	if answered == 0 {
		err = explainBegin(err)
	}
	if State(err) == "" && !errors.Is(err, context.Canceled) {
		return err
	}
	if _, undo := conn.ExecContext(context.WithoutCancel(ctx), "rollback"); undo != nil {
		_ = giveUp(conn)
	}
	return err
}

// commitEach is Commit for a driver that sends one statement at a time.
func (m *Message) commitEach(ctx context.Context, db *sqlx.DB, settings string) error {
	return Commit(func() (*sqlx.Tx, error) { return db.BeginTxx(ctx, nil) }, func(tx *sqlx.Tx) error {
		first := "set transaction " + ownMode + ", read write;" + errorsForHidden + ";" + ownPath + ";"
		for text := range strings.SplitSeq(first+settings, ";") {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return explainBegin(err)
			}
		}
		return m.SendEach(ctx, tx)
	})
}

// Read sends a message that only reads. If the driver sends one statement at a time, one
// transaction holds them together, and it may repeat them all.
func (m *Message) Read(ctx context.Context, db *sqlx.DB) error {
	if Several(db) {
		_, err := m.send(ctx, db, "set transaction "+ownMode+";\n"+ownSettings+";\n"+m.text.String())
		return err
	}
	return ReadTx(ctx, db, func(tx *sqlx.Tx) error { return m.SendEach(ctx, tx) })
}

// Several reports whether the driver of a pool sends several statements in one message. lib/pq
// does, and so does a driver with a method SendsSeveral. Any other driver counts as one that does
// not, such as pgx's adapter for database/sql.
func Several(db *sqlx.DB) bool {
	switch db.Driver().(type) {
	case lazyDriver, *pq.Driver, pq.Driver, interface{ SendsSeveral() }:
		return true
	}
	return false
}

// SendEach is Send, with one statement after another.
func (m *Message) SendEach(ctx context.Context, tx Querier) error {
	if m.err != nil {
		return m.err
	}
	for _, p := range m.parts {
		if err := p.send(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (p part) send(ctx context.Context, tx Querier) error {
	rows, err := tx.QueryContext(ctx, p.text)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if p.scan == nil { // reads to the end, which may return an error
		p.scan = func(*sql.Rows) error { return nil }
	}
	if _, err := each(rows, p.scan); err != nil {
		return err
	}
	return rows.Close()
}

// Send sends the message within a transaction. An error of [Message.Add] leaves the transaction
// unchanged.
func (m *Message) Send(ctx context.Context, tx Querier) error {
	_, err := m.send(ctx, tx, m.text.String())
	return err
}

// send returns how many of the statements that return rows have answered before an error.
func (m *Message) send(ctx context.Context, q Querier, text string) (answered int, err error) {
	if m.err != nil {
		return 0, m.err
	}
	rows, err := q.QueryContext(ctx, text)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	for i, scan := range m.scans {
		if i > 0 && !rows.NextResultSet() {
			return answered, errors.Join(rows.Err(), fmt.Errorf("statement %d of a message has no result", i+1))
		}
		some, err := each(rows, scan)
		if some {
			answered = i + 1
		}
		if err != nil {
			return answered, err
		}
	}
	for rows.NextResultSet() { // reads to the end, which may return the error of the commit
	}
	return answered, rows.Err()
}

// each scans the rows of a statement, and returns whether there were any.
func each(rows *sql.Rows, scan func(row *sql.Rows) error) (some bool, err error) {
	enough := false
	for rows.Next() {
		if enough {
			continue
		}
		err := scan(rows)
		if enough = errors.Is(err, ErrEnough); err != nil && !enough {
			return false, err
		}
		some = true
	}
	return some, rows.Err()
}

// inline writes parameters into a statement as literals, and removes its comments: a line end in a
// parameter would end a comment that names it.
func inline(query string, args []any) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexAny(query, "$'-")
		if i < 0 {
			b.WriteString(query)
			return b.String(), nil
		}
		b.WriteString(query[:i])
		query = query[i:]
		n := 1
		switch name := parameter(query); {
		case name != "":
			text, err := argument(name, args)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			query = query[len(name):]
			continue
		case strings.HasPrefix(query, "--"):
			_, query, _ = strings.Cut(query, "\n")
			b.WriteByte('\n')
			continue
		case query[0] == '\'':
			n += 1 + strings.IndexByte(query[1:], '\'') // two quotes are read as one literal after another
		}
		b.WriteString(query[:n])
		query = query[n:]
	}
}

// parameter returns the $n at the beginning of a text, or an empty string.
func parameter(text string) string {
	n := 1
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	if text[0] != '$' || n == 1 {
		return ""
	}
	return text[:n]
}

func argument(name string, args []any) (string, error) {
	n, err := strconv.Atoi(name[1:])
	if err != nil || n < 1 || n > len(args) {
		return "", fmt.Errorf("there is no parameter %s", name)
	}
	text, err := literal(args[n-1])
	if err != nil {
		return "", fmt.Errorf("parameter %s: %w", name, err)
	}
	return text, nil
}

// instant is the layout of times.
const instant = "2006-01-02 15:04:05.999999+00"

func literal(arg any) (string, error) {
	value, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case nil:
		return "null", nil
	case int64:
		return "(" + strconv.FormatInt(v, 10) + ")", nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return "'" + v.UTC().Format(instant) + "'", nil
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return "", errors.New("a text with a NUL byte has no literal")
		}
		return plain(pq.QuoteLiteral(v)), nil
	}
	return "", fmt.Errorf("a %T has no literal", arg)
}

// plain writes a literal in ASCII alone, so that it means the same under any client_encoding. The
// server decodes the whole message by that setting before it runs the first statement. Bytes that
// are not UTF-8 stay, and the server refuses them.
func plain(literal string) string {
	if !strings.ContainsFunc(literal, beyondASCII) {
		return literal
	}
	var b strings.Builder
	if literal[0] == '\'' { // has no backslashes: otherwise the driver wrote an escape string (E'...')
		b.WriteString(" E")
	}
	for len(literal) > 0 {
		r, size := utf8.DecodeRuneInString(literal)
		switch {
		case r < utf8.RuneSelf || size == 1:
			b.WriteString(literal[:size])
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
		literal = literal[size:]
	}
	return b.String()
}

func beyondASCII(r rune) bool { return r >= utf8.RuneSelf }
