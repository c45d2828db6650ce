// Package rule turns a sentence into checks: "do this, when that has not happened for X", on the
// tables that are there.
//
// A [Rule] names a table, the column from which time counts, what must happen, and the steps to take
// if it has not happened in time. Rules are kept in a [File], which [Parse] reads: each mistake is a
// [Problem] with its line.
//
// A [Timing] computes when the steps of a row are due. Business time follows a [Calendar]: its hours,
// its public holidays and the clocks of its time zone.
//
// Package rulestore applies a file to the tables of a database. [Register] lets runs check the rows that
// wait. Package jobs/rule has what an application needs of both.
package rule
