package sql_test

import (
	"database/sql"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// nasty holds texts that would end a literal, a comment or a statement.
var nasty = []string{
	"", "it's", `\`, `\'; select 1; --`, "'; drop table prescient.setting; --", "a\nb", "-- a\n'b", "$1 $2", "/* a", `"`, "a\r\nb\tc", "ä€😀", "null",
}

func TestParametersOfAMessageArriveUnchanged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	at := time.Date(2030, time.March, 1, 13, 15, 0, 123456000, time.FixedZone("", 5*3600))
	for _, text := range nasty {
		var m pg.Message
		type row struct {
			Text, Kept string
			Texts      []string
			N          int64
			Yes        bool
			At         time.Time
			None       *string
		}
		var got row
		// $1 and $2 in a comment, and in a literal, are not parameters.
		const query = `-- $1, then $2
			select $1::text, '$1 ''$2', -- $1
				$2::text[], -7 - $3 - $3, $4::boolean, $5::timestamptz, $6::text`
		m.Add(query, []any{text, pq.StringArray{text, "-", text}, int64(-3), true, at, nil}, func(r *sql.Rows) error {
			return r.Scan(&got.Text, &got.Kept, (*pq.StringArray)(&got.Texts), &got.N, &got.Yes, &got.At, &got.None)
		})
		if err := m.Send(t.Context(), begin(t, db)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := row{text, "$1 '$2", []string{text, "-", text}, -1, true, at, nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

// An earlier user of the session may have set its encoding.
func TestTextsOfAMessageArriveUnchangedInAnyEncodingOfTheSession(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, encoding := range []string{"utf8", "latin1", "sjis", "sql_ascii"} {
		for _, text := range append(nasty, `\ä`, "'ä'", "\U0010FFFF\uFFFD") {
			tx := begin(t, db)
			if _, err := tx.ExecContext(t.Context(), "set local client_encoding to "+encoding); err != nil {
				t.Fatal(err)
			}
			var m pg.Message
			var got string
			m.Add("select encode(convert_to($1, 'UTF8'), 'hex')", []any{text}, func(r *sql.Rows) error { return r.Scan(&got) })
			err := m.Send(t.Context(), tx)
			if want := hex.EncodeToString([]byte(text)); err != nil || got != want {
				t.Errorf("%s, %q: %s, want %s; %v", encoding, text, got, want, err)
			}
			_ = tx.Rollback()
		}
	}
}

// The comments of statements name their parameters.
func TestNoTextOfARowReachesTheCommentsOfAStatement(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	job := get[int64](t, db, "select prescient.ensure_job('remind')")
	texts := pq.StringArray(nasty)
	n := len(nasty)
	ids, times, next := make(pq.Int64Array, n), repeat(n, afterAll), repeat(n, "next")
	for i := range n {
		ids[i] = int64(i)
	}
	payloads := repeat(n, "{\n\"a\": \"it's\"\n}")
	for _, text := range nasty {
		for name, s := range map[string]statement{
			"group_read":       {query: pg.GroupRead.In(pgsql.DefaultSchema), args: []any{noon, pq.Int64Array{job}, text, text, text, 1, n, pq.Int64Array{}}},
			"group_unreadable": {query: pg.GroupUnreadable.In(pgsql.DefaultSchema), args: []any{noon, pq.Int64Array{job}, text, text, text, 1}},
			"rows_finish":      {query: pg.RowsFinish.In(pgsql.DefaultSchema), args: []any{noon, 2, 1, pq.Int64Array{job}, 0, n, ids, repeat(n, "done"), texts, ids, ids, text, pq.StringArray{text}, nil, payloads}},
			"rows_move":        {query: pg.RowsMove.In(pgsql.DefaultSchema), args: []any{noon, 2, 1, pq.Int64Array{job}, 0, n, ids, next, times, texts, ids, payloads, nil, texts, ids}},
			"job_numbers":      {query: pg.JobNumbers.In(pgsql.DefaultSchema), args: []any{pq.StringArray{"a" + text}}},
		} {
			tx := begin(t, db)
			var m pg.Message
			m.Add(s.query, s.args, func(*sql.Rows) error { return nil })
			if err := m.Send(t.Context(), tx); err != nil {
				t.Errorf("%s, %q: %v", name, text, err)
			}
			_ = tx.Rollback()
		}
	}
}

func TestAMessageThatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]any{
		"too few":             {1},
		"a number of a float": {1, 1.5},
		"bytes":               {1, []byte("a")},
		"a NUL byte":          {1, "a\x00b"},
	} {
		var m pg.Message
		m.Add("select 1", nil, nil)
		m.Add("select $1, $2", args, nil)
		m.Add("select $3", nil, nil) // the first counts
		m.Do("select 1")
		for way, err := range unsent(t, &m) {
			if err == nil || !strings.Contains(err.Error(), "parameter $2") {
				t.Errorf("%s, %s: %v", name, way, err)
			}
		}
	}
}

// unsent sends a message on a closed pool and without a pool, and returns the errors.
func unsent(t *testing.T, m *pg.Message) map[string]error {
	t.Helper()
	db, err := sqlx.Open("postgres", "host=localhost")
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]error{"Commit": m.Commit(t.Context(), db, "select 1"), "Send": m.Send(t.Context(), nil)}
}

// The server reads each field of a literal as it was written.
func TestACompositeIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "create type fields as (a text, b bigint, c boolean, d timestamptz, e jsonb)")
	at := time.Date(2030, 3, 1, 12, 15, 0, 1000, time.FixedZone("", 3600))
	texts := []any{nil, " spaces ", "so, (or not)", `"quoted"`, ")"}
	for _, text := range nasty {
		texts = append(texts, text)
	}
	for _, text := range texts {
		for _, whole := range []pg.Composite{{text, int64(-7), true, at, `{"a": "\\\""}`}, {text, nil, nil, nil, nil}} {
			var same bool
			var m pg.Message
			args := append([]any{whole}, whole...)
			const query = `
				select f.a is not distinct from $2::text and f.b is not distinct from $3::bigint and f.c is not distinct from $4::boolean
					and f.d is not distinct from $5::timestamptz and f.e is not distinct from $6::jsonb
				from (select ($1::public.fields).*) as f`
			m.Add(query, args, func(row *sql.Rows) error { return row.Scan(&same) })
			if err := m.Commit(t.Context(), db, "set local datestyle = 'German'"); err != nil || !same {
				t.Errorf("%q: %v, %v", whole, same, err)
			}
			if err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error { return tx.GetContext(t.Context(), &same, query, args...) }); err != nil || !same {
				t.Errorf("%q as a parameter: %v, %v", whole, same, err)
			}
		}
	}
	for _, wrong := range []any{"a\x00b", []byte("bytes"), struct{}{}} {
		var m pg.Message
		m.Add("select $1", []any{pg.Composite{wrong}}, nil)
		for way, err := range unsent(t, &m) {
			if err == nil || !strings.Contains(err.Error(), "parameter $1") {
				t.Errorf("%s takes %v: %v", way, wrong, err)
			}
		}
	}
}
