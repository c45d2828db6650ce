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
	// Calendars has the calendars that the steps of Rule name.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// Key is the column of the key, as SQL.
	Key string `json:"key"`
	// KeyType is the type of the key's column, as SQL text with its schema, such as bigint.
	KeyType string `json:"key_type"`
	// Facts are the expressions of Rule, as the server understood them.
	Facts expr.Facts `json:"facts"`
	// Also has the tables of Rule.Also.
	Also []AppliedAlso `json:"also,omitempty"`
	// Payload has the columns of Rule.Payload, as SQL.
	Payload []string `json:"payload,omitempty"`
	// Values are those of Rule.Values, as the server understood them.
	Values []Value `json:"values,omitempty"`
	// Reads has the columns that expressions read, as SQL, and Key.
	Reads []string `json:"reads"`
	// Asks has the columns of the row that expressions read which look up when the clock starts, and how long it
	// may take. If one changes, the row is looked at again.
	Asks []string `json:"asks,omitempty"`
	// Looks has the columns of the row that expressions of Done read which look something up. If one changes, a row that
	// has ended waits again, for the steps to come.
	Looks []string `json:"looks,omitempty"`
	// Enters has the columns of the row that expressions of Where read which look something up. If one changes, the row
	// may have come under the conditions.
	Enters []string `json:"enters,omitempty"`
}

// AppliedAlso is another table whose writes let a row be looked at.
type AppliedAlso struct {
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// Parted tells that the table has partitions.
	Parted bool `json:"parted,omitempty"`
	// Key is the column with the key of the row of the rule, as SQL, and KeyType its type.
	Key     string `json:"key"`
	KeyType string `json:"key_type"`
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

// RowsQuery returns the query by which checks read the rows of keys, which are the first parameter, an array of
// texts. If an expression of Done is an instant, the second parameter is the instant of the checks.
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
	return fmt.Sprintf(`select
    prescient_key, prescient_since, prescient_about, prescient_done,
    case when isfinite(prescient_done_at) then prescient_done_at end, prescient_lengths,
    case when octet_length(prescient_payload) <= %[1]d then prescient_payload end,
    coalesce(octet_length(prescient_payload) > %[1]d, false), coalesce(prescient_start, ''), prescient_paused
from (
    select (%[2]s)::text as prescient_key, %[3]s as prescient_since, %[11]s as prescient_start,
        %[4]s as prescient_about, %[5]s as prescient_done, %[6]s as prescient_done_at, %[7]s as prescient_lengths,
        %[8]s as prescient_payload, %[12]s as prescient_paused
    from %[9]s
    where %[2]s = any ($1::text[]::%[10]s[])
    offset 0
) as prescient_row`,
		mostAnswers, a.Name()+"."+a.Key, a.Facts.SinceSQL(), a.Facts.WhereSQL(), a.Facts.DoneSQL("$2::timestamptz"),
		a.Facts.DoneAtSQL(), a.Facts.LengthsSQL(), payload, a.Relation, a.KeyType, a.Facts.StartSQL(), a.Facts.PausedSQL())
}

// Query returns the SQL of a step, by its position from 0, with a parameter for each value that it
// names. Empty: the step has no SQL. Written returns a part of the query as the file has it.
func (a Applied) Query(step int) (query string, written func(part string) string) {
	query, values := statement(a.Rule.Steps[step].SQL, a.KeyType)
	return query, func(part string) string {
		return parameter.ReplaceAllStringFunc(part, func(p string) string {
			n, _ := strconv.Atoi(parameter.FindStringSubmatch(p)[1])
			return "$" + values[n-1]
		})
	}
}

// parameter matches what statement writes for a value.
var parameter = regexp.MustCompile(`\(\$([0-9]+)::text::[^()]*(?:\([0-9, ]*\)[^()]*)?\)`)
