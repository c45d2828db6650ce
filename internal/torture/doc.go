// Command torture breaks running processes of prescient on purpose, and then counts what was lost.
//
//	cd internal/torture && go run . -for 10m
//
// It starts a PostgreSQL of its own and real processes: three runners of two kinds, which know
// different jobs, a daemon and a catch-up. A mutator enqueues, cancels, reschedules and replaces
// checks, and writes to a table with a rule. Three schedules publish events beside that. A webhook gets the
// events of both, and a receiver the messages of the rule; they refuse, hang and die. Each process
// reaches the database through a proxy of its own, which cuts, delays and silences connections,
// loses the reply to a commit, and kills the process at the statement that a fault names. The server
// crashes and starts again, or its synchronous standby takes over.
//
// The faults follow from a seed, which is printed: the same seed repeats their kinds, targets and
// instants. -faults names the kinds that come; without it, all come but those that need something
// special:
//
//	-faults 'fill the disk,kill'             the servers are on a small filesystem, which only root mounts
//	-faults 'step the clock,kill'            the clock of the servers steps an hour, which needs cc
//	-pooler -faults 'kill the pooler,kill'   PgBouncer in transaction mode is before the server
//
// Once a minute the faults stop, and rows that are due then may stay as they are for no longer than
// a lease, a heartbeat and 5 s, times the load of the machine per core. The webhook and the receiver
// answer nothing meanwhile, because no check may wait for them. After the faults, everything
// heals, and one catch-up does the rest. Then the invariants are checked, against two ledgers that
// prescient does not write: a file of what each function started and ended, and a table of effects
// without a unique key.
//
// With -soak there are no faults: two daemons live from the beginning to the end. The file soak.csv
// in the directory gets samples of memory, connections and tables, which may not grow. The picture
// in docs is drawn from such a file, by make pictures.
//
// With -moves 300 there are two stores, and the process that moves rows between them is killed so
// often, at a statement or at random. Rows get other numbers when they move, so they are compared by
// their keys.
//
// With -cron, Debian's cron starts the runs of slots of a minute, by the crontab that prescient
// install prints. That needs root, who may mount. It takes ten minutes more than -for says, until the
// last row has been retried.
//
// The exit code is 1 if an invariant is broken, and 2 if the run itself failed.
package main
