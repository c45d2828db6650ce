package sql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prescient-go/prescient/internal/pg"
)

// DefaultSchema is the schema that the .sql files name.
const DefaultSchema Schema = pg.DefaultSchema

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

// String returns the bare name.
func (s Schema) String() string {
	if s == "" {
		return string(DefaultSchema)
	}
	return string(s)
}

// qualify rewrites the text of a .sql file for the schema.
func (s Schema) qualify(text string) string { return pg.Qualify(s, text) }
