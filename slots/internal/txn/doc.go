// Package txn does checks in transactions: it locks the rows of a unit, calls the function, records the outcome in the
// same transaction and commits. What the database cannot do is repeated; only what the function did is an error of its
// rows. The package knows no pages and no turns.
//
// # Chains
//
// The commit of a check may begin the transaction of the next one: without that, a row costs client and server about a
// tenth more CPU time and one more round trip; see bench/README.md. A goroutine of package round follows a Chain so:
//
//	Checker.Check     locks the row of the first unit, calls its function, and writes the message with the outcome
//	Chain.follow      asks round for the next unit, and adds to the message what begins its transaction and locks its row
//	Chain.Next        tells round which unit that was
//	Checker.Check     takes the transaction that has begun (Chain.popBegun), and goes on with the function of that unit
package txn
