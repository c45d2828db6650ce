// Package permit tells what may start now: checks wait at a Door for workers and connections, for a place of
// jobs.AtMost and for an instant of jobs.PerSecond. It knows no rows, and three statements of its own: acquire_permits,
// leave_places, reserve_rate.
package permit
