package rule

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lib/pq"
)

// MaxKeyColumns is the most columns of a key.
const MaxKeyColumns = 8

// separator stands between the parts of a key of several columns: 7/3. A part that has one is written as in a URL.
const separator = "/"

// KeyText returns the SQL of the key of a row, which is a text. The key of several columns has their texts in this
// order, with a slash between them. A slash within a text is written as %2F, and a percent sign as %25. row is the name
// of the row in SQL. Empty: columns stand alone. types are those of columns, as SQL.
func KeyText(row string, columns, types Texts) string {
	if row != "" {
		row += "."
	}
	if len(columns) == 1 {
		return row + columns[0] + "::text"
	}
	parts := make([]string, len(columns))
	for i, column := range columns {
		if parts[i] = row + column + "::text"; !plainType.MatchString(types[i]) {
			parts[i] = EscapedPart(parts[i])
		}
	}
	return "(" + strings.Join(parts, " || '"+separator+"' || ") + ")"
}

// EscapedPart returns the SQL of a part of a key of several columns, from that of the text of its column. The text may
// have a collation for which the server finds no parts of texts.
func EscapedPart(text string) string {
	return `replace(replace(` + text + ` collate "C", '%', '%25'), '` + separator + `', '%2F')`
}

// plainType matches the types whose texts have neither a slash nor a percent sign.
var plainType = regexp.MustCompile(
	`^(?:smallint|integer|bigint|numeric|uuid|boolean|date|timestamp)(?:\([0-9, ]+\))?(?: (?:with|without) time zone)?$`)

// ParseKey returns the texts of the columns of a key, which KeyText has written for n columns. ok is false if the key
// is another one: no row has it.
func ParseKey(key string, n int) (parts []string, ok bool) {
	if n == 1 {
		return []string{key}, true
	}
	parts = strings.Split(key, separator)
	if len(parts) != n {
		return nil, false
	}
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return parts, true
}

var unescape = strings.NewReplacer("%2F", separator, "%25", "%")

// KeyText returns the SQL of the key of a row, see the function KeyText.
func (a Applied) KeyText(row string) string { return KeyText(row, a.Key, a.KeyType) }

// KeyColumns returns the SQL of the columns of the key, each behind the name of the row.
func (a Applied) KeyColumns(row string) []string {
	columns := slices.Clone(a.Key)
	for i := range columns {
		columns[i] = row + "." + columns[i]
	}
	return columns
}

// KeyRow returns the SQL of the columns of the key, as one value by which rows are compared.
func (a Applied) KeyRow() string { return together(a.Key) }

// KeyValue returns the SQL of a key, which compares with KeyRow.
func (a Applied) KeyValue(key string) string {
	values, _ := ParseKey(key, len(a.Key))
	for i := range values {
		values[i] = pq.QuoteLiteral(values[i]) + "::" + a.KeyType[i]
	}
	return together(values)
}

// together returns the SQL of several values as one. A single value stands alone.
func together(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "(" + strings.Join(values, ", ") + ")"
}
