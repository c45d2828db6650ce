package pg

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
)

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
		return tx.SelectContext(ctx, &names, StoreSchemas.In(anySchema), like)
	})
	if err != nil {
		return nil, fmt.Errorf("find schemas like %s: %w", pattern, err)
	}
	return names, nil
}

// Stranger returns the role, if any, because of which the schema of a store must not be used: it owns the schema, or
// the table setting in it, and is no superuser, nor the owner of the database, the login, the role that MakeRoles makes
// for it, or the given one.
func Stranger(ctx context.Context, db Pool, schema Schema, owner string) (role string, err error) {
	err = ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		return One(ctx, tx, StoreStranger.In(anySchema), []any{schema.String(), Owner.In(schema), owner}, &role)
	})
	if err != nil {
		return "", fmt.Errorf("find the owner of schema %s: %w", schema, err)
	}
	return role, nil
}

// Overloads returns those of the routines that have one of the names. Each is written with the types of its parameters,
// such as "slot_ceil(timestamptz)".
func Overloads(routines []string, names ...string) (list []string) {
	for _, routine := range routines {
		if name, _, _ := strings.Cut(routine, "("); slices.Contains(names, name) {
			list = append(list, routine)
		}
	}
	return list
}
