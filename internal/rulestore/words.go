package rulestore

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/sqltext"
)

// refusedText is a text of a file that the server refuses, as a part of a statement.
type refusedText struct {
	text, statement string
	refused         *pq.Error
	table           table                    // of the rule, if its columns need no name of a table
	target          table                    // the table of the rule, which a statement may change
	written         func(part string) string // a part of the text as the file has it; nil: it is the same
}

// words says in the words of a file why the server refuses a text. The transaction must be able to go on.
func (s *Store) words(ctx context.Context, tx *sqlx.Tx, t refusedText) (string, error) {
	m := t.refused.Message
	switch t.refused.Code {
	case pqerror.SyntaxError:
		return t.syntax(), nil
	case pqerror.UndefinedColumn:
		return t.column(), nil
	case pqerror.UndefinedTable:
		return s.missingTable(ctx, tx, t)
	case pqerror.UndefinedFunction:
		return s.missingFunction(ctx, tx, t)
	case pqerror.InvalidTextRepresentation:
		if found := noLabel.FindStringSubmatch(m); found != nil {
			return s.labels(ctx, tx, found[1], found[2])
		}
	}
	return plainly(m), nil
}

// numbers matches the types of numbers.
const numbers = "smallint|integer|bigint|numeric|real|double precision"

// saying is a message of the server, and what it means for a file.
type saying struct {
	message *regexp.Regexp
	says    string
}

// sayings returns what is known of the server's messages. It compiles the expressions when it is first called: most
// processes never need them.
var sayings = sync.OnceValue(func() []saying {
	return []saying{
		{
			regexp.MustCompile(`^argument of (\S+) must be type boolean, not type (` + numbers + `)$`),
			`$1 takes conditions, and this one is of type $2: for a flag write x = 1, or x = 0`,
		},
		{
			regexp.MustCompile(`^argument of (\S+) must be type boolean, not type (.*)$`),
			`$1 takes conditions, and this one is of type $2: compare it with something, such as x = 'open'`,
		},
		{
			regexp.MustCompile(`^(\S+) types (.*) and (.*) cannot be matched$`),
			`the values of $1 must have one type, and are of type $2 and $3: write a cast, such as x::$2`,
		},
		{
			regexp.MustCompile(`^cannot cast type (` + numbers + `) to (timestamp.*|date)$`),
			`a number is no instant: for seconds since 1970 write to_timestamp(x), for milliseconds to_timestamp(x / 1000.0)`,
		},
		{
			regexp.MustCompile(`^cannot cast type (` + numbers + `) to interval$`),
			`a number is no interval: write make_interval(days => x), or with hours, mins or secs`,
		},
		{regexp.MustCompile(`^cannot cast type (.*) to (.*)$`), `a value of type $1 does not become one of type $2`},
		{
			regexp.MustCompile(`^column reference "(.*)" is ambiguous$`),
			`several tables have a column $1: write the name of its table before it, such as orders.$1`,
		},
		{
			regexp.MustCompile(`^column "(.*)" must appear in the GROUP BY clause .*$`),
			`an aggregate is about several rows, and $1 about one: look the others up in a subquery`,
		},
		{
			regexp.MustCompile(`^column "prescient_value" has pseudo-type record$`),
			`there are several values: write a list, such as [created_at, hold_until]`,
		},
		{
			regexp.MustCompile(`^column "(.*)" is of type (.*) but expression is of type (.*)$`),
			`column $1 is of type $2, and its new value of type $3`,
		},
		{regexp.MustCompile(`^invalid input (?:syntax|value) for type (.*): "(.*)"$`), `'$2' is not of type $1`},
		{
			regexp.MustCompile(`^type "(.*)" does not exist$`),
			`there is no type $1: PostgreSQL has timestamptz, date, text, integer, numeric, boolean, interval and others`,
		},
		{regexp.MustCompile(`^schema "(.*)" does not exist$`), `there is no schema $1 in this database`},
		{
			regexp.MustCompile(`^permission denied for (.*)$`),
			`this login has no right on $1: its owner can grant it`,
		},
		{
			regexp.MustCompile(`^subquery must return only one column$`),
			`the subquery has several columns: select one value`,
		},
		{
			regexp.MustCompile(`^more than one row returned by a subquery used as an expression$`),
			`the subquery finds several rows: select one value, such as max(p.paid_at), or ask exists (select ...)`,
		},
		{
			regexp.MustCompile(`^cannot insert multiple commands into a prepared statement$`),
			`there are several statements: a step has one. Write them as one, or call a function`,
		},
		{
			regexp.MustCompile(`^division by zero$`), `it divides by zero: write nullif(x, 0) for the number below`,
		},
	}
})

// plainly returns what a message of the server means for a file, or the message if that is not known.
func plainly(message string) string {
	for _, s := range sayings() {
		if s.message.MatchString(message) {
			return s.message.ReplaceAllString(message, s.says)
		}
	}
	return message
}

// syntax says where the grammar of SQL ends.
func (t refusedText) syntax() string {
	found := nearby.FindStringSubmatch(t.refused.Message)
	if found == nil && t.refused.Message != "syntax error at end of input" {
		return plainly(t.refused.Message)
	}
	at := t.at()
	if at < 0 || at >= len(strings.TrimRight(t.text, " \n\t")) {
		return "a value or a condition is missing at the end"
	}
	before := strings.Join(strings.Fields(t.text[:at]), " ")
	if t.written != nil {
		before = t.written(before)
	}
	if n := len(before); n > maxBefore {
		_, words, _ := strings.Cut(before[n-maxBefore:], " ")
		before = "... " + words
	}
	if before == "" {
		return fmt.Sprintf("SQL cannot begin with %s", found[1])
	}
	return fmt.Sprintf("SQL does not allow %s after %s", found[1], before)
}

// maxBefore is how much of a text a message shows before its mistake, in bytes.
const maxBefore = 40

var nearby = regexp.MustCompile(`^syntax error at or near "((?s:.*))"$`)

// at returns the byte of the text at which the server found the mistake. It is negative before the text.
func (t refusedText) at() int {
	var characters int
	if _, err := fmt.Sscan(t.refused.Position, &characters); err != nil {
		return -1
	}
	byteAt := 0
	for i := 1; i < characters && byteAt < len(t.statement); i++ {
		_, n := utf8.DecodeRuneInString(t.statement[byteAt:])
		byteAt += n
	}
	return byteAt - strings.Index(t.statement, t.text)
}

var (
	noColumn   = regexp.MustCompile(`^column "?(.+?)"?(?: of relation "(.*)")? does not exist$`)
	hintColumn = regexp.MustCompile(`column "(.+?)"`)
)

// column says which column there is instead of one that is not there.
func (t refusedText) column() string {
	found := noColumn.FindStringSubmatch(t.refused.Message)
	if found == nil {
		return t.refused.Message
	}
	name, of := found[1], found[2]
	if of != "" && of == t.target.Name {
		if _, err := t.target.column(pq.QuoteIdentifier(name)); err != nil {
			return t.within(strings.Replace(err.Error(), pq.QuoteIdentifier(name), name, 1))
		}
	}
	if of != "" {
		return fmt.Sprintf("table %s has no column %s", of, name)
	}
	fold := func(c column) bool { return strings.EqualFold(c.Name, name) }
	if quoted := `"` + name + `"`; strings.Contains(t.text, quoted) && !slices.ContainsFunc(t.table.columns, fold) {
		return fmt.Sprintf("there is no column %s. In SQL, double quotes are for names: a text is written '%[1]s'", name)
	}
	var meant []string
	for _, m := range hintColumn.FindAllStringSubmatch(t.refused.Hint, -1) {
		if strings.HasPrefix(t.refused.Hint, "Perhaps you meant") {
			meant = append(meant, quoted(strings.TrimPrefix(m[1], t.table.Name+".")))
		}
	}
	switch {
	case len(meant) > 0 && t.own(name):
		return fmt.Sprintf("table %s has no column %s: did you mean %s?", t.table.Relation, name, strings.Join(meant, " or "))
	case len(meant) > 0:
		return fmt.Sprintf("there is no column %s: did you mean %s?", name, strings.Join(meant, " or "))
	case t.compared(name) != "":
		return fmt.Sprintf("there is no column %s. For a text write '%s'", name, t.compared(name))
	case t.own(name):
		if _, err := t.table.column(pq.QuoteIdentifier(name)); err != nil {
			return t.within(strings.Replace(err.Error(), pq.QuoteIdentifier(name), name, 1))
		}
	}
	return "there is no column " + name
}

// outerQuotes matches the advice to write a name in two kinds of quotes, as the whole value of a field.
var outerQuotes = regexp.MustCompile(`write '("(?:[^"]|"")*")', because (.*), and YAML takes the outer quotes`)

// within returns a message about a column whose name is a part of the text: YAML takes no quotes in the middle of it.
func (t refusedText) within(message string) string {
	if sqltext.IsPlainName(strings.ToLower(strings.TrimSpace(t.text))) {
		return message
	}
	return outerQuotes.ReplaceAllString(message, "write $1, because $2")
}

// compared returns the name of a column that is not there, as it stands in the text, if a value may stand there, too:
// status = open. Empty: it is the name of a column.
func (t refusedText) compared(name string) string {
	found := regexp.MustCompile(`(?i)(?:=|<>|\bin\s*\((?:[^)]*,)?)\s*(` + regexp.QuoteMeta(name) + `)\s*(?:$|[\s),;])`).
		FindStringSubmatch(t.text)
	if found == nil {
		return ""
	}
	return found[1]
}

// own reports whether a column can only be one of the table of the rule.
func (t refusedText) own(column string) bool {
	return t.table.Relation != "" && !strings.Contains(column, ".") && !expr.Selects(t.text)
}

var noTable = regexp.MustCompile(`^(?:relation|(?:missing|invalid reference to) FROM-clause entry for table) "(.*)"`)

// missingTable says which table there is instead of one that is not there.
func (s *Store) missingTable(ctx context.Context, tx *sqlx.Tx, t refusedText) (string, error) {
	found := noTable.FindStringSubmatch(t.refused.Message)
	switch {
	case found == nil:
		return t.refused.Message, nil
	case strings.Contains(t.refused.Message, "FROM-clause") && t.table.Name != "":
		return fmt.Sprintf("there is no table or alias %s here: the row is called %s, and another table is looked up in a "+
			"subquery", found[1], quoted(t.table.Name)), nil
	case strings.Contains(t.refused.Message, "FROM-clause"):
		return fmt.Sprintf("there is no table or alias %s in the statement", found[1]), nil
	}
	schema, name, qualified := strings.Cut(found[1], ".")
	if !qualified {
		schema, name = "", schema
	}
	instead, err := s.otherTable(ctx, tx, schema, name)
	return "there is no table " + found[1] + instead, err
}

// otherTable says which table there is instead of one that is not there. schema is empty if none was written.
func (s *Store) otherTable(ctx context.Context, tx *sqlx.Tx, schema, typed string) (string, error) {
	var tables []struct{ Schema, Name string }
	if err := tx.SelectContext(ctx, &tables, pg.RuleTables.In(s.schema)); err != nil {
		return "", err
	}
	var same, folded, names []string
	for _, other := range tables {
		full := other.Schema + "." + other.Name
		if other.Name == typed {
			same = append(same, quoted(full))
		}
		if strings.EqualFold(other.Name, typed) && (schema == "" || other.Schema == schema) && other.Name != typed {
			folded = append(folded, quoted(full))
		}
		if schema == "" || other.Schema == schema {
			names = append(names, full)
		}
	}
	switch {
	case len(same) > 0 && schema == "":
		return fmt.Sprintf(": write its schema, %s", strings.Join(same, " or ")), nil
	case len(same) > 0:
		return fmt.Sprintf(": did you mean %s?", strings.Join(same, " or ")), nil
	case len(folded) > 0:
		return fmt.Sprintf(": write %s, because SQL reads a name without double quotes in lower case",
			strings.Join(folded, " or ")), nil
	case schema != "":
		typed = schema + "." + typed
	}
	return spoken.Meant(typed, names), nil
}

var (
	noOperator = regexp.MustCompile(`^operator does not exist: (?:(\S.*?) )??([^\w\s"]+) (\S.*)$`)
	noFunction = regexp.MustCompile(`^function (.*)\((.*)\) does not exist$`)
)

// operators are those of other languages, and how SQL writes them.
var operators = map[string]string{
	"==": "SQL compares with =", "&&": "SQL writes and", "!": "SQL writes not", "%%": "SQL writes like",
	"||": "SQL writes or between conditions", "=>": "SQL writes >=", "=<": "SQL writes <=", "!==": "SQL writes <>",
}

// functions are those of other databases, and how PostgreSQL writes them.
var functions = map[string]string{
	"ifnull": "coalesce(a, b)", "nvl": "coalesce(a, b)", "isnull": "a is null", "if": "case when a then b else c end",
	"iif": "case when a then b else c end", "len": "length(a)", "date_add": "a + interval '3 days'",
	"dateadd": "a + interval '3 days'", "date_sub": "a - interval '3 days'", "datediff": "a - b",
	"from_unixtime": "to_timestamp(a)", "unix_timestamp": "extract(epoch from a)",
	"str_to_date": "to_timestamp(a, format)",
	"to_datetime": "a::timestamptz", "datetime": "a::timestamptz", "json_extract": "a ->> 'field'",
	"json_value": "a ->> 'field'", "year": "extract(year from a)", "month": "extract(month from a)",
	"day": "extract(day from a)", "hour": "extract(hour from a)",
}

// missingFunction says how an operator or a function is written, or in which schema a function is.
func (s *Store) missingFunction(ctx context.Context, tx *sqlx.Tx, t refusedText) (string, error) {
	why := t.function()
	found := noFunction.FindStringSubmatch(t.refused.Message)
	if found == nil || strings.Contains(found[1], ".") {
		return why, nil
	}
	var same []string
	if err := tx.SelectContext(ctx, &same, pg.RuleFunctions.In(s.schema), found[1]); err != nil || len(same) == 0 {
		return why, err
	}
	return fmt.Sprintf("there is no function %s without its schema: write %s", found[1], strings.Join(same, " or ")), nil
}

// function says how an operator or a function is written.
func (t refusedText) function() string {
	if found := noOperator.FindStringSubmatch(t.refused.Message); found != nil {
		left, operator, right := found[1], found[2], found[3]
		if spelled := operators[operator]; spelled != "" {
			return fmt.Sprintf("there is no operator %s for these types: %s", operator, spelled)
		}
		if left == "" {
			return fmt.Sprintf("there is no operator %s for type %s", operator, right)
		}
		if strings.HasPrefix(left, "timestamp") && regexp.MustCompile(`^(?:`+numbers+`)$`).MatchString(right) {
			return fmt.Sprintf("%s does not go between type %s and type %s: for a number of days write %[1]s "+
				"make_interval(days => x)", operator, left, right)
		}
		return fmt.Sprintf("%s does not go between type %s and type %s: write a cast, such as x::%s", operator, left, right,
			strings.ReplaceAll(cast(left, right), "timestamp with time zone", "timestamptz"))
	}
	found := noFunction.FindStringSubmatch(t.refused.Message)
	switch {
	case found == nil:
		return t.refused.Message
	case functions[strings.ToLower(found[1])] != "":
		return fmt.Sprintf("there is no function %s: PostgreSQL writes %s", found[1], functions[strings.ToLower(found[1])])
	case found[2] == "":
		return fmt.Sprintf("there is no function %s", found[1])
	}
	return fmt.Sprintf("there is no function %s for values of type %s", found[1],
		strings.ReplaceAll(found[2], "unknown", "text"))
}

// cast returns the type of two to which the other is cast. A text becomes anything.
func cast(left, right string) string {
	if slices.Contains([]string{"text", "character varying", "unknown"}, left) {
		return right
	}
	return left
}

var noLabel = regexp.MustCompile(`^invalid input value for enum (.*): "(.*)"$`)

// labels says which values an enum has. kind is its type as SQL.
func (s *Store) labels(ctx context.Context, tx *sqlx.Tx, kind, value string) (string, error) {
	var list []string
	if err := tx.SelectContext(ctx, &list, pg.RuleLabels.In(s.schema), kind); err != nil {
		return "", err
	}
	return fmt.Sprintf("type %s has no value '%s': it has %s", kind, value, spoken.List(list)), nil
}
