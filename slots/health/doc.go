// Package health says whether all is well: it judges what the ledger has to tell by conditions that have names and limits.
// "status --check" and /healthz of the daemon say the same by it.
//
//	report, err := health.Look(ctx, ledger, time.Time{}, health.Limits{}, knows)
//	for _, f := range report.Findings { ... }
package health
