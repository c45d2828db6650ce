package rule

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
)

// The values that the SQL of a step can name.
const (
	valueKey     = "key"
	valueSince   = "since"
	valueStep    = "step"
	valuePayload = "payload"
)

// opaque matches the parts of SQL in which a value is not replaced: texts, quoted names and comments. A
// comment in a comment, and a text with a backslash before a quote, are read as PostgreSQL does.
var opaque = regexp.MustCompile(`^(?:` +
	`[eE]'(?:[^'\\]|\\(?s:.)|'')*'` +
	`|'(?:[^']|'')*'` +
	`|"(?:[^"]|"")*"` +
	`|--[^\n]*` +
	`)`)

var (
	dollarTag = regexp.MustCompile(`^\$(?:[\pL_][\pL\pN_]*)?\$`)
	valueName = regexp.MustCompile(`^\$([\pL\pN_]+)`)
	word      = regexp.MustCompile(`^[\pL_][\pL\pN_$]*`)
)

// statement returns the SQL of a step with a parameter for each value that it names, and the values in
// the order of the parameters. keyType is the type of $key, as SQL.
func statement(text, keyType string) (query string, values []string) {
	types := map[string]string{valueKey: keyType, valueSince: "timestamptz", valueStep: "text", valuePayload: "jsonb"}
	number := map[string]int{}
	var b strings.Builder
	for part, name := range parts(text) {
		if types[name] == "" {
			b.WriteString(part)
			continue
		}
		if number[name] == 0 {
			values = append(values, name)
			number[name] = len(values)
		}
		fmt.Fprintf(&b, "($%d::text::%s)", number[name], types[name])
	}
	return b.String(), values
}

// unknownValue returns the first value that a text of SQL names and that a step does not have, such
// as "$id". Empty: there is none.
func unknownValue(text string) string {
	for part, name := range parts(text) {
		switch name {
		case "", valueKey, valueSince, valueStep, valuePayload:
		default:
			return part
		}
	}
	return ""
}

// parts yields the parts of a text of SQL, and with each the name of the value that it stands for.
// Empty: it stands for itself.
func parts(text string) iter.Seq2[string, string] {
	return func(yield func(part, name string) bool) {
		for rest := text; rest != ""; {
			n, name := len(opaque.FindString(rest)), ""
			switch {
			case n > 0:
			case strings.HasPrefix(rest, "/*"):
				n = comment(rest)
			case dollarTag.MatchString(rest):
				tag := dollarTag.FindString(rest)
				if n = strings.Index(rest[len(tag):], tag); n < 0 {
					n = len(rest)
				} else {
					n += 2 * len(tag)
				}
			case valueName.MatchString(rest):
				name = valueName.FindStringSubmatch(rest)[1]
				n = 1 + len(name)
			case word.MatchString(rest): // in which a dollar sign begins nothing
				n = len(word.FindString(rest))
			default:
				n = 1
			}
			if !yield(rest[:n], name) {
				return
			}
			rest = rest[n:]
		}
	}
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
