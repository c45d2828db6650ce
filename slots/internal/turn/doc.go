// Package turn decides which jobs a run claims rows of next, and how many rows. It knows numbers alone. It is pure: one
// goroutine uses it, now is a parameter, and what other goroutines count comes in as a Load and a Memory.
package turn
