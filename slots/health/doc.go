// Package health says whether all is well. It judges the ledger by conditions that have names and
// limits. "status --check" and /healthz of the daemon use it, so both say the same.
//
//	report, err := health.Check(ctx, ledger, time.Time{}, health.Limits{}, knows)
//	for _, f := range report.Findings { ... }
package health
