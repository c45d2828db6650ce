// Package storeid tells the function of a job which store its rows wait in.
package storeid

import "context"

type key struct{}

// With returns a context for the checks of a store. id is the uuid of the store.
func With(ctx context.Context, id string) context.Context { return context.WithValue(ctx, key{}, id) }

// Of returns the uuid of the store whose rows are checked. Returns "" outside a run.
func Of(ctx context.Context) string {
	id, _ := ctx.Value(key{}).(string)
	return id
}
