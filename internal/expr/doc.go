// Package expr models what a rule says about a row of its table.
//
// A rule has four kinds of expressions: when the clock of a row starts, whether the rule is about the row, whether the
// expected thing has happened, and how long it may take. An [Expr] is one of them, as the server understood it. Some
// can be computed from the row alone. Others look something up in other tables.
//
// [Facts] has all expressions of a rule, and writes the SQL that computes them. Its users differ in what they may ask:
//
//   - A trigger computes what the row alone says. What it cannot know counts as not yet: the row waits, and is perhaps
//     checked early, but never late.
//   - A check, an apply and a test on the past compute everything.
//
// The package is pure: it reads and writes texts of SQL.
package expr
