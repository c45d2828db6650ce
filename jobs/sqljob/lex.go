package sqljob

import (
	"regexp"
	"strings"
)

// plainQuery returns a query without the semicolons, comments and white space at its end.
func plainQuery(query string) string {
	end := 0
	for at := 0; at < len(query); {
		n, blank := token(query[at:])
		at += n
		if !blank {
			end = at
		}
	}
	return query[:end]
}

// token returns the length of the first token of a text, and whether it is a semicolon, a comment
// or white space. A token without its end is the rest of the text.
func token(text string) (n int, blank bool) {
	switch {
	case strings.HasPrefix(text, "--"):
		return until(text, 2, "\n"), true
	case strings.HasPrefix(text, "/*"):
		return comment(text), true
	case strings.ContainsRune("; \t\r\n\f\v", rune(text[0])):
		return 1, true
	case text[0] == '\'' || text[0] == '"': // two quotes within are read as one token after another
		return until(text, 1, text[:1]), false
	case escapes.MatchString(text):
		return len(escapes.FindString(text)), false
	case word.MatchString(text):
		return len(word.FindString(text)), false
	case tag.MatchString(text):
		mark := tag.FindString(text)
		return until(text, len(mark), mark), false
	}
	return 1, false
}

var (
	escapes = regexp.MustCompile(`^[eE]'(?s:[^'\\]|\\.)*(?:'|\\?$)`) // a literal with backslashes
	word    = regexp.MustCompile(`^[\pL_][\pL\pN_$]*`)               // a dollar in a word begins no literal
	tag     = regexp.MustCompile(`^\$(?:[\pL_][\pL\pN_]*)?\$`)       // of a literal between dollars
)

// until returns the length of a text up to and with the first end after from.
func until(text string, from int, end string) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

// comment returns the length of a comment in which others may be nested.
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
