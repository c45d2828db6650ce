package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
)

// Applied is a rule as the database keeps it: what was applied, and what the catalog said about it
// then. Column definition of table rule has it as JSON.
//
// Its texts of SQL are read in the same way with any search_path: names are quoted, and those of
// functions and operators are qualified. Columns have no qualifier.
type Applied struct {
	Rule Rule `json:"rule"`
	// Calendars has the calendars that the steps of Rule name, and all of the file if the data of a row name one.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// Key has the columns of the key, as SQL.
	Key Texts `json:"key"`
	// KeyType has the types of the key's columns, as SQL text with their schemas, such as bigint.
	KeyType Texts `json:"key_type"`
	// Facts are the expressions of Rule, as the server understood them.
	Facts expr.Facts `json:"facts"`
	// Also has the tables of Rule.Also.
	Also []AppliedAlso `json:"also,omitempty"`
	// Payload has the columns of Rule.Payload, as SQL.
	Payload []string `json:"payload,omitempty"`
	// Values are those of Rule.Values, as the server understood them.
	Values []Value `json:"values,omitempty"`
	// Reads has the columns that expressions read, as SQL, and those of Key.
	Reads []string `json:"reads"`
	// Asks has the columns of the row that decide when steps are due, as far as triggers do not compute it. They are read
	// by expressions of Since and of delays that look something up, and by those of repetitions, calendars and zones. If
	// one changes, the row is looked at again.
	Asks []string `json:"asks,omitempty"`
	// Looks has the columns of the row that are read by those expressions of Done that look something up. If one changes,
	// a row that has ended waits again, for the steps to come.
	Looks []string `json:"looks,omitempty"`
	// Enters has the columns of the row that are read by those expressions of Where that look something up. If one
	// changes, the rule may have become about the row.
	Enters []string `json:"enters,omitempty"`
}

// AppliedAlso is another table whose writes let a row be looked at.
type AppliedAlso struct {
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// Parted tells that the table has partitions.
	Parted bool `json:"parted,omitempty"`
	// Key has the columns with the key of the row of the rule, as SQL, and KeyType their types.
	Key     Texts `json:"key"`
	KeyType Texts `json:"key_type"`
}

// written returns the tables whose writes may let a row count: that of the rule, and those of Also.
func (a Applied) written() []string {
	tables := []string{a.Relation}
	for _, also := range a.Also {
		tables = append(tables, also.Relation)
	}
	return tables
}

// Name returns the name of the table without its schema, as SQL. Expressions call the row by it.
func (a Applied) Name() string {
	names, err := ParseName(a.Relation)
	if err != nil || len(names) == 0 {
		return a.Relation
	}
	return pq.QuoteIdentifier(names[len(names)-1])
}

// RowsQuery returns the query by which checks read the rows of keys. The first parameters are arrays of texts, one for
// each column of the key. If an expression of Done is an instant, the next parameter is the instant of the checks.
func (a Applied) RowsQuery() string {
	payload := "null::text"
	columns := slices.Clone(a.Payload)
	for _, v := range a.Values {
		columns = append(columns, fmt.Sprintf("(%s) as %s", v.SQL, pq.QuoteIdentifier(v.Name)))
	}
	if len(columns) > 0 {
		payload = "(select row_to_json(prescient_p.*)::text from (select " + strings.Join(columns, ", ") +
			") as prescient_p)"
	}
	keys, where := a.keyed()
	instant := fmt.Sprintf("$%d::timestamptz", len(a.Key)+1)
	return fmt.Sprintf(`select
    prescient_key, prescient_since, prescient_about, prescient_done,
    case when isfinite(prescient_done_at) then prescient_done_at end, prescient_held,
    case when octet_length(prescient_payload) <= %[1]d then prescient_payload end,
    coalesce(octet_length(prescient_payload) > %[1]d, false), coalesce(prescient_start, ''), prescient_paused
from %[13]s(
    select %[2]s as prescient_key, %[3]s as prescient_since, %[11]s as prescient_start,
        %[4]s as prescient_about, %[5]s as prescient_done, %[6]s as prescient_done_at, %[7]s as prescient_held,
        %[8]s as prescient_payload, %[12]s as prescient_paused
    from %[9]s
    where %[10]s
    offset 0
) as prescient_row`,
		mostAnswers, a.KeyText(a.Name()), a.Facts.SinceSQL(), a.Facts.WhereSQL(), a.Facts.DoneSQL(instant),
		a.Facts.DoneAtSQL(), a.Facts.HeldSQL(), payload, a.Relation, where, a.Facts.StartSQL(), a.Facts.PausedSQL(), keys)
}

// keyed returns the condition by which RowsQuery finds a row of the keys, and what stands before the rows: for several
// columns, the keys one by one, so that the server finds each row by the index of the key.
func (a Applied) keyed() (keys, where string) {
	columns := a.KeyColumns(a.Name())
	if len(columns) == 1 {
		return "", fmt.Sprintf("%s = any ($1::text[]::%s[])", columns[0], a.KeyType[0])
	}
	var arrays, names, equal []string
	for i, column := range columns {
		arrays = append(arrays, fmt.Sprintf("$%d::text[]::%s[]", i+1, a.KeyType[i]))
		names = append(names, fmt.Sprintf("prescient_%d", i+1))
		equal = append(equal, fmt.Sprintf("%s = prescient_keys.prescient_%d", column, i+1))
	}
	return fmt.Sprintf("unnest(%s) as prescient_keys (%s)\ncross join lateral ", strings.Join(arrays, ", "),
		strings.Join(names, ", ")), strings.Join(equal, " and ")
}

// Parameters returns the first parameters of RowsQuery: for each column of the key, an array of the texts of keys. It
// leaves out a key that does not have as many parts, because no row has it.
func (a Applied) Parameters(keys []string) []any {
	columns := make([]pq.StringArray, len(a.Key))
	for _, key := range keys {
		parts, _ := ParseKey(key, len(a.Key))
		for i, part := range parts {
			columns[i] = append(columns[i], part)
		}
	}
	args := make([]any, len(columns))
	for i, column := range columns {
		args[i] = append(pq.StringArray{}, column...) // a nil one is null
	}
	return args
}

// Query returns the SQL of a step, by its position from 0, with a parameter for each value that it
// names. Empty: the step has no SQL. The function written turns a part of the query, such as one that the server
// complains of, into the text of the file.
func (a Applied) Query(step int) (query string, written func(part string) string) {
	query, values := statement(a.Rule.Steps[step].SQL, a)
	return query, func(part string) string {
		return parameter.ReplaceAllStringFunc(part, func(p string) string {
			n, _ := strconv.Atoi(parameter.FindStringSubmatch(p)[1])
			return "$" + values[n-1]
		})
	}
}

// parameter matches what statement writes for a value.
var parameter = regexp.MustCompile(`\(\$([0-9]+)::text::[^()]*(?:\([0-9, ]*\)[^()]*)?\)`)
