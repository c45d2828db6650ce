// Package permit decides when a check may start. Checks wait at a Gate for workers and connections,
// for a permit of jobs.AtMost and for an instant of jobs.PerSecond. The package knows no rows, and only
// the statements limit_acquire, limit_renew, limit_release and limit_pace.
//
// A run has the permits of a job, and its claims share them. A permit goes this way:
//
//	Limit.Obtain    asks the database for permits for a claim: before it, if all its rows need the same permit, or else
//	                once its rows are read and their keys are known
//	Limit.Renew     renews them with each heartbeat of the leases. A claim ends if one of its permits is lost
//	Gate.Acquire    takes a free permit for a check, and a worker; then Permit.Renew waits again for an instant that has
//	                passed, and Permit.GiveBack gives back an instant that the check does not use
//	Gate.Release    frees the permit for the next check
//	Limit.Release   gives back the permits that no other claim uses, when the claim ends or only waits for locks
package permit
