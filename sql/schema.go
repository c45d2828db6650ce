package sql

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// DefaultSchema is the schema that the .sql files name.
const DefaultSchema Schema = "prescient"

// Schema is the name of the PostgreSQL schema that holds all tables and functions.
// The zero value means DefaultSchema.
type Schema string

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// maxName is the longest name in PostgreSQL, in bytes.
const maxName = 63

// ParseSchema checks a schema name: a lower-case letter or underscore, then up to 62 lower-case
// letters, digits and underscores, and not one of PostgreSQL's own pg_ names. An empty name is the
// default.
func ParseSchema(name string) (Schema, error) {
	switch {
	case name == "":
		return DefaultSchema, nil
	case !schemaName.MatchString(name), len(name) > maxName:
		return "", fmt.Errorf("schema %q: must match %s, and have at most %d letters", name, schemaName, maxName)
	case strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("schema %q: names that begin with pg_ belong to PostgreSQL", name)
	}
	return Schema(name), nil
}

// IsLike tells whether a name matches a pattern. In the pattern, * stands for any characters.
func IsLike(name, pattern string) bool {
	like, err := path.Match(pattern, name)
	return like && err == nil
}

// Schemas returns the schemas that hold prescient's tables and whose names match a pattern, sorted
// by name. In the pattern, * stands for any characters.
func Schemas(ctx context.Context, db Pool, pattern string) ([]string, error) {
	var names []string
	like := strings.NewReplacer(`_`, `\_`, `*`, `%`).Replace(pattern)
	err := ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		names = nil
		return tx.SelectContext(ctx, &names, StoreSchemas.In(""), like)
	})
	if err != nil {
		return nil, fmt.Errorf("find schemas like %s: %w", pattern, err)
	}
	return names, nil
}

// String returns the bare name.
func (s Schema) String() string {
	if s == "" {
		return string(DefaultSchema)
	}
	return string(s)
}

// qualify rewrites the text of a .sql file, in which every name is qualified with the default
// schema.
func (s Schema) qualify(text string) string {
	if s == "" || s == DefaultSchema {
		return text
	}
	return strings.ReplaceAll(text, string(DefaultSchema)+".", pq.QuoteIdentifier(string(s))+".")
}
