// Package txn does checks in transactions: it locks the rows of a unit, calls the function, records the outcome in the
// same transaction and commits. The commit may begin the transaction of the next row: without that, a row costs client
// and server about a tenth more CPU time and one more round trip; see bench/README.md. What the database cannot do is
// repeated; only what the function did is an error of its rows. The package knows no pages and no turns.
package txn
