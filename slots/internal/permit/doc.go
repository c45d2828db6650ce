// Package permit decides when a check may start. Checks wait at a Gate for workers and connections,
// for a permit of jobs.AtMost and for an instant of jobs.PerSecond. The package knows no rows, and only
// the statements limit_acquire, limit_renew, limit_release and limit_pace.
package permit
