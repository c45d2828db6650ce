// Package ent is generated: go generate.
package ent

// On one processor, since ent writes its files while it takes imports of one for another from them.
//go:generate env GOMAXPROCS=1 go tool ent generate --feature sql/execquery ./schema
