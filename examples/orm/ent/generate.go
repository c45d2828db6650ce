// Package ent is generated: go generate.
package ent

//go:generate go tool ent generate --feature sql/execquery ./schema
