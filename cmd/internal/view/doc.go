// Package view holds what commands print with --output json, and what prescient serve answers: the
// same things under the same names. docs/json.md describes them, and a test compares the two.
package view
