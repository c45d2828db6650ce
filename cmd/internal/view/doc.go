// Package view holds what commands print with --output json, and what prescient serve answers: the
// same things under the same names. cmd/json.schema.json describes them, and a test makes it.
package view
