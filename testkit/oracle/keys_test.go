package oracle_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// key is the key of shop.o: column id, or columns id and line.
type key struct {
	kind string // the type of id
	two  bool
}

var kinds = []key{{kind: "bigint"}, {kind: "text"}, {kind: "uuid"}, {kind: "text", two: true}}

// nth returns the key of the nth row. Of two columns, the text of the first one needs escapes, and several rows share
// it.
func (k key) nth(n int) string {
	switch {
	case k.two:
		return fmt.Sprintf("k%d%%2F%c%%25/%d", n/4, 'a'+rune(n%2), n)
	case k.kind == "uuid":
		return fmt.Sprintf("00000000-0000-0000-0000-%012d", n)
	case k.kind == "text":
		return fmt.Sprintf("k%d.%c", n, 'a'+rune(n%5))
	}
	return strconv.Itoa(n)
}

// declare declares the columns of a table that have the key, whose names begin with a prefix.
func (k key) declare(prefix string) string {
	text := prefix + "id " + k.kind
	if k.two {
		text += ", " + prefix + "line int"
	}
	return text
}

// columns returns the names of these columns.
func (k key) columns(prefix string) string {
	if k.two {
		return prefix + "id, " + prefix + "line"
	}
	return prefix + "id"
}

// values returns the columns of a row with a key.
func (k key) values(of string) row {
	if !k.two {
		return row{"id": of}
	}
	id, line, _ := strings.Cut(of, "/")
	id, err := url.PathUnescape(id)
	if err != nil {
		panic(err)
	}
	return row{"id": id, "line": line}
}

// list returns the values of these columns as SQL.
func (k key) list(of string) string {
	values := k.values(of)
	if k.two {
		return literal(values["id"]) + ", " + literal(values["line"])
	}
	return literal(values["id"])
}

// is returns the condition that columns have a key.
func (k key) is(prefix, of string) string {
	return fmt.Sprintf("(%s) = (%s)", k.columns(prefix), k.list(of))
}

// text returns the SQL of the key of a row.
func (k key) text() string {
	if k.two {
		return "replace(replace(id, '%', '%25'), '/', '%2F') || '/' || line"
	}
	return "id::text"
}

// file returns the text of a file for this key, from that for a single column.
func (k key) file(text string) string {
	if !k.two {
		return text
	}
	return strings.NewReplacer(
		"key: id\n", "key: [id, line]\n",
		"key: o_id}", "key: [o_id, o_line]}",
		"b.o_id = o.id", "b.o_id = o.id and b.o_line = o.line",
		"p.o_id = o.id", "p.o_id = o.id and p.o_line = o.line",
		"where id = $key", "where id = $key.id and line = $key.line",
		"$key,", "replace(replace($key.id, '%', '%25'), '/', '%2F') || '/' || $key.line,",
	).Replace(text)
}
