// Package schema describes the tables of the generated client.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the table orders.
type Order struct{ ent.Schema }

// Fields returns its columns.
func (Order) Fields() []ent.Field { return []ent.Field{field.Int("id"), field.String("customer")} }
