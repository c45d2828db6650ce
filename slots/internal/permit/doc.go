// Package permit tells what may start now: checks wait at a Door for workers and connections, for a place of
// jobs.AtMost and for an instant of jobs.PerSecond. It knows no rows, and three statements of its own: take_places,
// leave_places, take_pace.
package permit
