package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/sqltext"
)

// token is a part of a text of SQL that is neither white space nor a comment.
type token struct {
	text  string // a word in lower case, all else as it is
	kind  sqltext.Kind
	from  int // the first byte
	depth int // of parentheses, brackets and case expressions around it
}

// is reports whether the token is a word.
func (t token) is(word string) bool { return t.kind == sqltext.Word && t.text == word }

// tokens returns the tokens of a text. It returns an error if a parenthesis or a quote is not closed, or if the text
// has a semicolon: it would not be one expression.
func tokens(text string) (list []token, err error) {
	var open []string // what closes what is open
	for at := 0; at < len(text); {
		n, kind := sqltext.Next(text[at:])
		t := token{text: text[at : at+n], kind: kind, from: at, depth: len(open)}
		at += n
		switch {
		case kind == sqltext.Space || kind == sqltext.Comment:
			continue
		case kind == sqltext.Literal && !closed(t.text):
			return nil, fmt.Errorf("the quote of %s is not closed", shorten(t.text))
		case kind == sqltext.Word:
			t.text = strings.ToLower(t.text)
		}
		switch {
		case kind == sqltext.Literal:
		case t.text == "(":
			open = append(open, ")")
		case t.text == "[":
			open = append(open, "]")
		case t.is("case"):
			open = append(open, "end")
		case t.text == ";":
			return nil, fmt.Errorf("an expression has no semicolon")
		case t.text == ")" || t.text == "]" || t.is("end") && len(open) > 0:
			if len(open) == 0 || open[len(open)-1] != t.text {
				return nil, fmt.Errorf("a %q closes nothing", t.text)
			}
			open = open[:len(open)-1]
			t.depth = len(open)
		}
		list = append(list, t)
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("a %q is missing", open[len(open)-1])
	}
	return list, nil
}

// closed reports whether a literal ends with the quote that it begins with.
func closed(literal string) bool {
	quote := literal[strings.IndexAny(literal, `'"$`):]
	if quote[0] == '$' {
		mark := quote[:strings.IndexByte(quote[1:], '$')+2]
		return len(quote) >= 2*len(mark) && strings.HasSuffix(quote, mark)
	}
	return len(quote) > 1 && quote[len(quote)-1] == quote[0]
}

// shorten returns at most the first 20 characters of a text.
func shorten(text string) string {
	if runes := []rune(text); len(runes) > 20 {
		return string(runes[:20]) + "..."
	}
	return text
}

// Check returns why a text is not one expression, or why its value may change or differ while the row stays as it is.
// Such an expression would make a rule miss rows: it is evaluated when the row is written, and when a step is due.
func Check(text string) error {
	list, err := tokens(text)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("it is empty")
	}
	for i, t := range list {
		if t.kind == sqltext.Word && slices.Contains(sessions, t.text) && (i == 0 || list[i-1].text != ".") {
			return fmt.Errorf("%[1]s depends on the session, and a row is written and checked in different ones. "+
				"A column of this name is written %[2]q", t.text, t.text)
		}
		if t.kind == sqltext.Word && slices.Contains(variables, t.text) && isCall(list, i) {
			return fmt.Errorf("%s depends on the session, and a row is written and checked in different ones: "+
				"compare with a column or a constant", t.text)
		}
		if moves(list, i) {
			name := strings.Trim(t.text, "'")
			return fmt.Errorf("%s moves by itself, but the row is read only when it is written and when a step is due. "+
				"Count from an instant of the row instead, such as since: [created_at, hold_until]", name)
		}
	}
	return nil
}

// clocks are the functions and keywords whose values change while the row stays as it is.
var clocks = []string{
	"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "random", "age",
	"current_timestamp", "current_date", "current_time", "localtimestamp", "localtime",
}

// variables are functions of the server whose values depend on the session or the transaction.
var variables = []string{
	"current_setting", "txid_current", "txid_current_if_assigned", "txid_current_snapshot", "pg_current_xact_id",
	"pg_current_xact_id_if_assigned", "pg_current_snapshot", "pg_backend_pid", "inet_client_addr", "inet_client_port",
	"inet_server_addr", "inet_server_port", "current_schemas", "current_query", "pg_trigger_depth", "lastval", "currval",
	"nextval", "pg_is_in_recovery", "pg_postmaster_start_time", "pg_conf_load_time", "gen_random_uuid",
}

// sessions are the keywords whose values depend on the session. PostgreSQL reads a column named user as one of them.
var sessions = []string{
	"user", "current_user", "session_user", "current_role", "current_catalog", "current_schema",
}

// instants are the words that PostgreSQL reads as an instant of the present.
var instants = []string{"'now'", "'today'", "'tomorrow'", "'yesterday'"}

// moves reports whether the value of a token changes while the row stays as it is.
func moves(list []token, i int) bool {
	t := list[i]
	follows := func(n int, text string) bool { return i+n < len(list) && list[i+n].text == text }
	switch {
	case t.kind == sqltext.Literal:
		return slices.Contains(instants, strings.ToLower(t.text)) && readsInstant(list, i)
	case t.kind != sqltext.Word || !slices.Contains(clocks, t.text):
		return false
	case i > 0 && list[i-1].text == "." && !qualified(list, i):
		return false
	case strings.HasPrefix(t.text, "current_") || strings.HasPrefix(t.text, "local"):
		return true
	case t.text == "age": // with one argument, it counts from today
		return follows(1, "(") && arguments(list, i+1) == 1
	}
	return follows(1, "(")
}

// isCall reports whether a token is the name of a function of the server that is called.
func isCall(list []token, i int) bool {
	return i+1 < len(list) && list[i+1].text == "(" && (i == 0 || list[i-1].text != "." || qualified(list, i))
}

// qualified reports whether the token is a function of the schema pg_catalog.
func qualified(list []token, i int) bool { return i > 1 && list[i-2].is("pg_catalog") }

// readsInstant reports whether a literal becomes an instant: 'now'::timestamptz or date 'today'.
func readsInstant(list []token, i int) bool {
	instant := func(t token) bool {
		return t.kind == sqltext.Word && (strings.HasPrefix(t.text, "timestamp") || t.text == "date" || t.text == "time")
	}
	return i > 0 && instant(list[i-1]) || i+3 < len(list) && list[i+1].text == ":" && instant(list[i+3])
}

// arguments counts the arguments of a call, from its opening parenthesis.
func arguments(list []token, open int) (n int) {
	for _, t := range list[open+1:] {
		switch {
		case t.depth == list[open].depth: // the closing parenthesis
			return n
		case n == 0 || t.depth == list[open].depth+1 && t.text == ",":
			n++
		}
	}
	return n
}

// Split divides a condition at the words that join its parts on the outermost level: "or" if any is true, else "and".
// So what the row alone says is told apart from what must be looked up. The text must pass Check. A text that is joined
// otherwise is one part.
func Split(text string, anyOf bool) (parts []string) {
	list, err := tokens(text)
	if err != nil {
		return []string{text}
	}
	joint := "and"
	if anyOf {
		joint = "or"
	}
	from, between := 0, false
	if len(list) > 0 && slices.Contains(queries, list[0].text) { // a subquery without parentheses
		return []string{strings.TrimSpace(text)}
	}
	for _, t := range list {
		switch {
		case t.depth > 0:
		case t.is("or") && !anyOf: // it binds less than and
			return []string{strings.TrimSpace(text)}
		case t.is("between"):
			between = true
		case t.is("and") && between:
			between = false
		case t.is(joint):
			parts = append(parts, strings.TrimSpace(text[from:t.from]))
			from = t.from + len(joint)
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

// queries are the words with which a subquery begins.
var queries = []string{"select", "with", "values", "table"}

// Subqueries returns the subqueries of a text that are in no other one, in their order.
func Subqueries(text string) (list []string) {
	all, err := tokens(text)
	if err != nil {
		return nil
	}
	begins := func(i int) bool {
		return i < len(all) && all[i].kind == sqltext.Word && slices.Contains(queries, all[i].text)
	}
	if begins(0) { // without parentheses
		return []string{text}
	}
	for i := 0; i < len(all); i++ {
		if open := all[i]; open.text == "(" && begins(i+1) {
			from := all[i+1].from
			for i++; all[i].depth > open.depth; {
				i++
			}
			list = append(list, text[from:all[i].from])
		}
	}
	return list
}

// Frozen returns a text such as 'today' that the server has read as an instant of now: it is in the text, and not in
// the text as the server understood it. Empty: there is none.
func Frozen(text, understood string) string {
	left := map[string]int{}
	for _, literal := range literals(understood) {
		left[literal]++
	}
	for _, literal := range literals(text) {
		if !present.MatchString(literal) {
			continue
		}
		if left[literal]--; left[literal] < 0 {
			return "'" + literal + "'"
		}
	}
	if found := presentText.FindStringSubmatch(understood); found != nil {
		return found[1]
	}
	return ""
}

var (
	// present matches a text that may stand for an instant of now.
	present = regexp.MustCompile(`(?i)^\s*(?:now|today|tomorrow|yesterday)\b`)
	// presentText matches such a text that becomes an instant each time, as the server writes it.
	presentText = regexp.MustCompile(`(?i)\(('\s*(?:now|today|tomorrow|yesterday)\b[^']*')` +
		`::(?:text|character varying)\)::(?:timestamp|date|time)`)
)

// literals returns the texts in quotes of a text of SQL, without the quotes.
func literals(text string) (list []string) {
	tokens, _ := tokens(text)
	for _, t := range tokens {
		if t.kind != sqltext.Literal || strings.HasPrefix(t.text, `"`) {
			continue
		}
		literal := strings.TrimLeft(t.text, "eE")
		quote := literal[:1]
		if quote == "$" {
			quote = literal[:strings.IndexByte(literal[1:], '$')+2]
		}
		list = append(list, strings.TrimSuffix(strings.TrimPrefix(literal, quote), quote))
	}
	return list
}

// Names reports whether a text has the name of a table before that of a column. The text is an expression as the server
// writes it.
func Names(text, table string) bool {
	list, _ := tokens(text)
	for i, t := range list {
		if t.text == table && i+1 < len(list) && list[i+1].text == "." && (i == 0 || list[i-1].text != ".") {
			return true
		}
	}
	return false
}

// Bare returns the names of columns in a text that have no name of a table before them, as SQL has them. In a subquery,
// they are columns of its own tables first. Some words of SQL are among them, but no names that a subquery gives to its
// output or its tables, and no columns of "using", which take no table. The text must pass Check.
func Bare(text string) (names []string) {
	list, err := tokens(text)
	if err != nil {
		return nil
	}
	next := func(i int) string {
		if i < len(list) {
			return list[i].text
		}
		return ""
	}
	for i := 0; i < len(list); i++ {
		t := list[i]
		named := t.kind == sqltext.Word || strings.HasPrefix(t.text, `"`)
		argument := next(i+1) == "=>" || next(i+1) == "=" && next(i+2) == ">"
		switch {
		case t.is("using") && next(i+1) == "(":
			for i++; list[i].depth > t.depth || list[i].text == "("; {
				i++
			}
		case named && !argument && next(i+1) != "." && next(i+1) != "(" && !isGiven(list, i):
			names = append(names, t.text)
		}
	}
	return names
}

// isGiven reports whether a name is a part of a longer one, or is given to what stands before it. "as" may be left out,
// and no column follows a parenthesis or a column without an operator or a word of SQL. After "distinct on (a)" one
// does: it is not found out.
func isGiven(list []token, i int) bool {
	before := func(n int) string {
		if i < n {
			return ""
		}
		return list[i-n].text
	}
	return before(1) == "." || before(1) == "as" || before(1) == ")" || before(2) == "."
}

// ComparedWithItself returns the name of a column that a text compares with itself, such as id for (p.id = p.id). The
// text is an expression as the server writes it. Empty: it compares no column so.
func ComparedWithItself(text string) string {
	list, err := tokens(text)
	if err != nil {
		return ""
	}
	ends := func(t token, depth int) bool { return t.depth < depth || t.is("and") || t.is("or") || t.is("where") }
	for i, t := range list {
		if t.text != "=" {
			continue
		}
		from, to := i, i+1
		for from > 0 && !ends(list[from-1], t.depth) {
			from--
		}
		for to < len(list) && !ends(list[to], t.depth) {
			to++
		}
		left, right := list[from:i], list[i+1:to]
		same := func(a, b token) bool { return a.text == b.text }
		point := slices.IndexFunc(left, func(t token) bool { return t.text == "." })
		if point >= 0 && point+1 < len(left) && slices.EqualFunc(left, right, same) {
			return left[point+1].text
		}
	}
	return ""
}

// Selects reports whether a text has a subquery, in which the names of other tables count. A text that cannot be read
// has one.
func Selects(text string) bool {
	list, err := tokens(text)
	return err != nil || slices.ContainsFunc(list, func(t token) bool { return t.is("select") })
}
