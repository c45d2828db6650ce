// Package metrics tells Prometheus what runs do, and how far the ledger is:
//
//	m := metrics.New()
//	m.Watch(metrics.Source{DB: db, Registry: registry})
//	cfg := slots.Config{DB: db, Registry: registry, Observer: m}
//	...
//	http.Handle("GET /metrics", m.Handler())
//
// Two kinds of figures come from two places. What this process has done is counted as it is recorded, many rows at once:
// checks by job and outcome, their lateness and duration, runs, events. What the database knows is read when somebody
// asks: slots that are missed, rows that are overdue, events that wait. That costs a few short statements, however many
// rows wait: at most the newest 10,000 slots are looked at, and rows are counted up to a limit; one such read goes on at
// a time, for five seconds at the most. Where the database does not answer, prescient_database_up is 0 and the
// figures of the process are served alone.
//
// A process that cron starts for each slot has nothing that could be scraped. [Metrics.WriteFile] leaves its metrics in a
// file for node_exporter's textfile collector, under the same names: it adds what this process has counted to what
// the file says, so that counters grow from run to run, and the same dashboard and alerts serve both. "run; catch-up" on
// one line share one file.
//
// The label of a job is job_exec, as everywhere in prescient: Prometheus gives "job" a meaning of its own. Its values are
// the jobs of the binary, and of what is overdue at most 100. docs/metrics.md has the table of all metrics.
package metrics
