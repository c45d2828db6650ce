// Package metrics tells Prometheus what runs do, and how far the ledger is:
//
//	m := metrics.New()
//	m.Watch(metrics.Source{DB: db, Registry: registry})
//	cfg := slots.Config{DB: db, Registry: registry, Observer: m}
//	...
//	http.Handle("GET /metrics", m.Handler())
//
// Figures come from two places. This process counts what it does as it is recorded, many rows at
// once: checks by job and outcome, their lateness and duration, runs, events. The database is read
// for each request: slots that are missed, rows that are overdue, events that wait. That costs a
// few short statements, however many rows wait, because they count rows up to a limit. One such read
// runs at a time, for at most five seconds. If the database does not answer, prescient_database_up is 0
// and only the figures of the process are served.
//
// A process that cron starts for each slot is too short to be scraped. [Metrics.WriteFile] leaves
// its metrics in a file for node_exporter's textfile collector, under the same names. It adds the
// process's counters to those in the file. So counters grow from run to run, and the same dashboard
// and alerts serve both. "run; catch-up" on one line share one file.
//
// The label of a job is job_exec, because Prometheus gives "job" a meaning of its own. Its values
// are the jobs of the binary. Overdue rows add at most 100 others. docs/metrics.md has the table of
// all metrics.
package metrics
