package pgxjobs

import (
	"cmp"
	"database/sql/driver"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows of one statement, for database/sql.
type rows struct {
	pgx.Rows // nil: the statement returns none
	types    *pgtype.Map
}

func (r *rows) Columns() (names []string) {
	if r.Rows == nil {
		return nil
	}
	for _, field := range r.FieldDescriptions() {
		names = append(names, field.Name)
	}
	return names
}

func (r *rows) Close() error {
	r.Rows.Close()
	return explain(r.Err())
}

func (r *rows) Next(dest []driver.Value) error {
	if r.Rows == nil {
		return io.EOF
	}
	if !r.Rows.Next() {
		return cmp.Or(explain(r.Err()), io.EOF)
	}
	fields := r.FieldDescriptions()
	for i, raw := range r.RawValues() {
		var err error
		if dest[i], err = r.value(fields[i], raw); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) value(field pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	switch known, ok := r.types.TypeForOID(field.DataTypeOID); {
	case raw == nil:
		return nil, nil
	case ok:
		return known.Codec.DecodeDatabaseSQLValue(r.types, field.DataTypeOID, field.Format, raw)
	}
	return string(raw), nil // a type that pgx does not know comes as text
}

// results are the rows of several statements that were sent at once. It skips statements that
// return none.
type results struct {
	rows
	all *pgconn.MultiResultReader
}

func (r *results) HasNextResultSet() bool { return r.all != nil }

func (r *results) NextResultSet() error {
	for r.all != nil && r.all.NextResult() {
		if reader := r.all.ResultReader(); len(reader.FieldDescriptions()) > 0 {
			r.Rows = pgx.RowsFromResultReader(r.types, reader)
			return nil
		}
	}
	return cmp.Or(r.Close(), io.EOF)
}

func (r *results) Close() error {
	if r.all == nil {
		return nil
	}
	all := r.all
	r.all = nil
	return explain(all.Close())
}
