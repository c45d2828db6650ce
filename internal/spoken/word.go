package spoken

import (
	"regexp"
	"strings"
)

// Word is a text as a shell reads it, as one word: what is in data may be anything, and commands that are advised are copied.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[\w./:@=,+-]+$`)
