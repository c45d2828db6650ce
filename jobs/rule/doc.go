// Package rule turns a sentence into checks: "do this, when that has not happened for X", on the
// tables that are there.
//
// A [Rule] names a table, the column from which time counts, what must happen, and the steps to take
// if it has not happened in time. Rules are kept in a [File].
package rule
