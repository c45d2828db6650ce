// Package unit has the rows of one call: how rows are put together for it, how a call that failed
// as a whole is divided, and what becomes of each row by its results. It knows no SQL, no claims,
// and nothing of when a call may begin.
package unit
