// Package sqltext splits a text of SQL into tokens as PostgreSQL does, as far as one has to know
// where literals and comments end.
package sqltext

import (
	"regexp"
	"strings"
)

// Kind is a kind of token.
type Kind int

// The kinds of tokens.
const (
	// Other is a single byte that begins none of the others, such as an operator or a dollar sign.
	Other Kind = iota
	// Space is white space.
	Space
	// Comment is a comment, in which others may be nested.
	Comment
	// Literal is a text or a name in quotes, or a text between dollar signs. A quote within is doubled
	// and begins the next Literal.
	Literal
	// Word is a keyword or a name without quotes. A dollar sign within belongs to it.
	Word
)

// Next returns the length of the first token of a text, which is not empty, and its kind. A token
// without its end is the rest of the text.
func Next(text string) (n int, kind Kind) {
	switch {
	case strings.HasPrefix(text, "--"):
		return until(text, 2, "\n"), Comment
	case strings.HasPrefix(text, "/*"):
		return comment(text), Comment
	case strings.IndexByte(" \t\r\n\f\v", text[0]) >= 0:
		return 1, Space
	case text[0] == '\'' || text[0] == '"':
		return until(text, 1, text[:1]), Literal
	case escapes.MatchString(text):
		return len(escapes.FindString(text)), Literal
	case word.MatchString(text):
		return len(word.FindString(text)), Word
	case tag.MatchString(text):
		mark := tag.FindString(text)
		return until(text, len(mark), mark), Literal
	}
	return 1, Other
}

var (
	escapes = regexp.MustCompile(`^[eE]'(?:(?s:[^'\\]|\\.)|'')*(?:'|\\?$)`) // a text with backslashes
	word    = regexp.MustCompile(`^[\pL_][\pL\pN_$]*`)
	tag     = regexp.MustCompile(`^\$(?:[\pL_][\pL\pN_]*)?\$`) // of a text between dollar signs
)

// until returns the length of a text up to and with the first end after from.
func until(text string, from int, end string) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

// comment returns the length of the comment at the beginning of a text.
func comment(text string) int {
	depth := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
