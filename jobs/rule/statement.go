package rule

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/prescient-go/prescient/internal/sqltext"
)

// The values that the SQL of a step can name.
const (
	valueKey     = "key"
	valueSince   = "since"
	valueNow     = "now" // when the check began
	valueStep    = "step"
	valueNumber  = "number"
	valuePayload = "payload"
)

// valueName matches a name after a dollar sign, also the number of a parameter.
var valueName = regexp.MustCompile(`^\$([\pL\pN_]+)`)

// statement returns the SQL of a step with a parameter for each value that it names, and the values in
// the order of the parameters. keyType is the type of $key, as SQL.
func statement(text, keyType string) (query string, values []string) {
	types := map[string]string{
		valueKey: keyType, valueSince: "timestamptz", valueNow: "timestamptz", valueStep: "text", valueNumber: "bigint",
		valuePayload: "jsonb",
	}
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
// as "$id". Returns "" if the step has all of them.
func unknownValue(text string) string {
	for part, name := range parts(text) {
		switch name {
		case "", valueKey, valueSince, valueNow, valueStep, valueNumber, valuePayload:
		default:
			return part
		}
	}
	return ""
}

// checkStatement returns what is wrong with the SQL of a step that the server would accept. Empty: nothing.
func checkStatement(text string) string {
	if word := sqltext.Closes(text); word != "" {
		return fmt.Sprintf("a step cannot %s: its statement runs in the transaction that records the check", word)
	}
	for rest := text; rest != ""; {
		n, kind := sqltext.Next(rest)
		token := rest[:n]
		rest = rest[n:]
		if name := quotedValue.FindString(token); kind == sqltext.Literal && name != "" {
			return fmt.Sprintf("%s stands within quotes, where it is text and no value: write the text and the value side by "+
				"side, such as 'order ' || %s", name, name)
		}
	}
	return ""
}

// quotedValue matches a value of a step within a text.
var quotedValue = regexp.MustCompile(`\$(?:key|since|now|step|number|payload)\b`)

// parts yields the parts of a text of SQL, and with each the name of the value that it stands for.
// Empty: it stands for itself.
func parts(text string) iter.Seq2[string, string] {
	return func(yield func(part, name string) bool) {
		for rest := text; rest != ""; {
			n, kind := sqltext.Next(rest)
			name := ""
			if found := valueName.FindStringSubmatch(rest); kind == sqltext.Other && found != nil {
				n, name = len(found[0]), found[1]
			}
			if !yield(rest[:n], name) {
				return
			}
			rest = rest[n:]
		}
	}
}
