// Package health says whether all is well. It looks into the ledger for problems of several kinds, the
// conditions. Each has a name and a threshold. "status --check" and /healthz of the daemon use it, so both say
// the same.
//
//	report, err := health.Check(ctx, ledger, time.Time{}, health.Thresholds{}, knows)
//	for _, f := range report.Findings { ... }
//
// [Read] returns the state of a store (state.go), and [Check] a report with the findings. The conditions are listed in
// condition.go; how each judges is in finding_slots.go, finding_jobs.go, finding_events.go and finding_pauses.go.
package health
