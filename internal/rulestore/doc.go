// Package rulestore applies rules to the tables that they are about, and reads and removes the
// rules that were applied.
//
// [Store.Plan] asks the catalog of the database what a rule means, refuses what cannot be, and
// counts the rows that would wait. [Store.Apply] writes the rule down, creates its triggers, and
// lets the rows that are there wait, page by page. [Store.Remove] undoes that. planned.go has what a
// plan says, plan.go how it is made, and compare.go how a rule differs from the one that was applied.
//
// The triggers enqueue, move and cancel checks in the transaction that writes a row. Their functions
// run with the rights of a role that may do that for every rule, so applications need no right on
// prescient. They run no code of the table's owner: what the rule reads of a row is a function of its
// own, in which the server has understood all names before. The checks find out what has happened; see
// package rule.
//
// A trigger decides for what a row waits, although the check could. Triggers that only let each changed row be checked
// in the next slot were built and measured: they gain nothing for an insert, and each later change costs more, as
// bench/README.md shows. Only the trigger sees both versions of a row, too. A check cannot tell a row that was done,
// whose steps that have passed meanwhile do not fire, from one that has come late.
package rulestore
