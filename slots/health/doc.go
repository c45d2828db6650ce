// Package health says whether all is well. It looks into the ledger for problems of several kinds, the
// conditions. Each has a name and a threshold. "status --check" and /healthz of the daemon use it, so both say
// the same.
//
//	report, err := health.Check(ctx, ledger, time.Time{}, health.Thresholds{}, knows)
//	for _, f := range report.Findings { ... }
package health
