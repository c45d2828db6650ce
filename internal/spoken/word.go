package spoken

import (
	"regexp"
	"strings"
)

// Word quotes a text so that a shell reads it as one word. Data may contain anything, and users
// copy the commands of messages.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[\w./:@=,+-]+$`)
