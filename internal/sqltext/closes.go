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

// Closes returns the first word of a statement if it ends a transaction or changes the session. Such a statement
// cannot run in the transaction that records it. Empty: it does not.
func Closes(text string) string {
	for rest := text; rest != ""; {
		n, kind := Next(rest)
		token := rest[:n]
		rest = rest[n:]
		if kind == Space || kind == Comment {
			continue
		}
		if slices.Contains(closers, strings.ToLower(token)) {
			return token
		}
		return ""
	}
	return ""
}
