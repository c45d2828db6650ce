// Package permit decides when a check may start. Checks wait at a Door for workers and connections,
// for a place of jobs.AtMost and for an instant of jobs.PerSecond. The package knows no rows, and
// only three statements: acquire_permits, leave_places and reserve_rate.
package permit
