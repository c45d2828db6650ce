// Package view is what commands print with --output json, and what prescient serve answers: the same things under the same
// names. docs/json.md describes them, and a test holds the two together.
package view
