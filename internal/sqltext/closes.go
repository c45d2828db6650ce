package sqltext

import (
	"slices"
	"strings"
)

// closers are the words with which a statement begins that ends a transaction, or changes the session.
var closers = []string{
	"abort", "begin", "commit", "deallocate", "discard", "end", "listen", "prepare", "release", "reset", "rollback",
	"savepoint", "set", "start", "unlisten",
}

// First returns the first token of a statement that is neither space nor a comment, in lower case. Returns "" if the
// statement has no such token.
func First(text string) string {
	for rest := text; rest != ""; {
		n, kind := Next(rest)
		if kind != Space && kind != Comment {
			return strings.ToLower(rest[:n])
		}
		rest = rest[n:]
	}
	return ""
}

// Closes returns the first word of a statement if it ends a transaction or changes the session. Such a statement
// cannot run in the transaction that records it. Returns "" for any other statement.
func Closes(text string) string {
	if word := First(text); slices.Contains(closers, word) {
		return word
	}
	return ""
}
