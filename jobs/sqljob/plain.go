package sqljob

import "github.com/prescient-go/prescient/internal/sqltext"

// plainQuery returns a query without the semicolons, comments and white space at its end.
func plainQuery(query string) string {
	end := 0
	for at := 0; at < len(query); {
		n, kind := sqltext.Next(query[at:])
		semicolon := query[at] == ';' && kind == sqltext.Other
		at += n
		if !semicolon && kind != sqltext.Space && kind != sqltext.Comment {
			end = at
		}
	}
	return query[:end]
}
