package rule

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
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

// keyValueName matches the value of a column of the key, such as $key.order_id.
var keyValueName = regexp.MustCompile(`^\$key\.("(?:[^"]|"")+"|[\pL_][\pL\pN_$]*)`)

// keyValue returns the name of the value of a column of the key, whose name is SQL.
func keyValue(column string) string { return valueKey + "." + quoted(column) }

// keyValues returns the names of the values of the key of a rule: key.id, and key for a single column.
func keyValues(columns Texts) (names []string) {
	for _, column := range columns {
		names = append(names, keyValue(column))
	}
	if len(columns) == 1 {
		names = append(names, valueKey)
	}
	return names
}

// statement returns the SQL of a step with a parameter for each value that it names, and the values in
// the order of the parameters.
func statement(text string, a Applied) (query string, values []string) {
	types := map[string]string{
		valueSince: "timestamptz", valueNow: "timestamptz", valueStep: "text", valueNumber: "bigint", valuePayload: "jsonb",
	}
	for i, name := range keyValues(a.Key) {
		types[name] = a.KeyType[min(i, len(a.Key)-1)]
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

// unknownValue returns what is wrong with the first value that a text of SQL names and that a step does not have, such
// as "$id". Returns "" if the step has all of them.
func unknownValue(text string, key Texts) string {
	values := keyValues(key)
	for part, name := range parts(text) {
		switch {
		case slices.Contains([]string{"", valueSince, valueNow, valueStep, valueNumber, valuePayload}, name):
		case slices.Contains(values, name), name == valueKey && len(key) == 0:
		case name == valueKey || strings.HasPrefix(name, valueKey+".") && len(key) > 1:
			for i := range values {
				values[i] = "$" + values[i]
			}
			return fmt.Sprintf("there is no value %s, because the key has several columns: want %s", part, spoken.List(values))
		default:
			return fmt.Sprintf("there is no value %s: want $key, $since, $now, $step, $number or $payload", part)
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
				if column := keyValueName.FindStringSubmatch(rest); column != nil {
					n, name = len(column[0]), keyValue(column[1])
				}
			}
			if !yield(rest[:n], name) {
				return
			}
			rest = rest[n:]
		}
	}
}
