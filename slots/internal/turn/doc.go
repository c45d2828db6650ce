// Package turn decides of which jobs a run claims rows next, and how many rows. It knows only numbers.
// It is pure: one goroutine uses it, now is a parameter, and other goroutines count in a Load and a
// Memory.
package turn
