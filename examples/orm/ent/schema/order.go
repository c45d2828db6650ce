// Package schema is what ent generates its client from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the table orders.
type Order struct{ ent.Schema }

// Fields are its columns.
func (Order) Fields() []ent.Field { return []ent.Field{field.Int("id"), field.String("customer")} }
