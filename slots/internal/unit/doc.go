// Package unit has one call of a job's function: its rows, how they are put together, its context
// and its watch, how it is divided if it failed as a whole, and what becomes of each row by its
// results. It knows no SQL, no claims, and nothing of when a call may begin.
package unit
