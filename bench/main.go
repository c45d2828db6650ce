// Command bench measures prescient beside what could be used instead, on a PostgreSQL of its own. Every figure is a
// ratio of two rates that were measured by turns in the same run. README.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// workload is one file of this command.
type workload struct {
	name  string
	about string
	run   func(ctx context.Context, b *bench) error
	long  bool // not in the short set, where commits would be measured
	alone bool // only where it is named
}

var workloads = []workload{
	{"floor", "finish, move and 80/20 mixed against the one SQL statement that does the same", floor, false, false},
	{"peers", "due jobs that do nothing, and jobs scheduled for one instant, beside other queues", peers, false, false},
	{"realistic", "each check looks up its order and raises an alert for 5 %", realistic, false, false},
	{"vacuum", "20 rounds of new jobs while another transaction holds back vacuum", heldBack, true, false},
	{"scale", "due rows out of 1M, 10M and 30M; size; an empty slot; transactions of a small slot", scale, false, false},
	{"schedules", "create schedules, publish those of one slot to the outbox, and backfill", schedules, false, false},
	{"events", "publish a slot of schedules to Kafka, beside the outbox; latency; a consumer of few events", events, false, false},
	{"forecast", "a forecast of a day out of 1M, 3M and 30M rows; how far the run times that it tells are off", forecasts, false, false},
	{"advise", "advise out of 100k, 1M and 10M rows of history", advised, false, false},
	{"limits", "four runners under limits that hold for all of them together", limits, false, false},
	{"day", "a virtual day of 30M schedules, with an outage and others that are created meanwhile; only where it is named", day, true, true},
	{"spreading", "what a window of hours costs an enqueue, beside a look for the least loaded slot", spreading, false, false},
	{"rules", "inserts and updates of a table with a rule and without; apply on a table beside inserts", rules, false, false},
	{"enqueue", "one by one and in bulk, against COPY and River", enqueue, false, false},
}

// bench is what the workloads share.
type bench struct {
	sizes
	server *server
	report *report
	short  bool
	toy    bool
	log    *slog.Logger
}

// sizes are how much the workloads do.
type sizes struct {
	rows      int // due rows of a measured part
	rounds    int
	schedules int // of a virtual day

	jobRounds int // of the workload vacuum
	forecast  int // slots whose run times are forecast
}

var usual = sizes{
	rows: 100_000, rounds: 3, schedules: 30_000_000,
	jobRounds: 20, forecast: 60,
}

// toys show that a workload runs. They measure nothing.
var toys = sizes{
	rows: 100, rounds: 1, schedules: 1000,
	jobRounds: 3, forecast: 5,
}

type options struct {
	sizes
	short bool
	toy   bool
	only  string
	json  string
	dir   string
}

func main() {
	debug.SetGCPercent(400)        // as cmd.Main has it; for the peers in Go, too
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away, such as head, must not leave the server behind
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // everything is stopped by then
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, chosen, err := parse(args)
	if err != nil {
		return err
	}
	b := &bench{sizes: o.sizes, short: o.short, toy: o.toy, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if b.server, err = startServer(ctx, o.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.stop()) }()
	if b.report, err = newReport(ctx, b); err != nil {
		return err
	}
	for _, w := range chosen {
		if ctx.Err() != nil {
			break
		}
		started := clock()
		b.log.InfoContext(ctx, "workload", "name", w.name)
		// One that fails is in the report and does not take the others along.
		if failed := w.run(ctx, b); failed != nil {
			failed = fmt.Errorf("%s: %w", w.name, failed)
			b.report.note("FAILED: " + failed.Error())
			err = errors.Join(err, failed)
		}
		b.log.InfoContext(ctx, "workload is done", "name", w.name, "took", time.Since(started).Round(time.Second))
	}
	err = errors.Join(err, context.Cause(ctx), b.report.markdown(os.Stdout))
	if o.json != "" {
		err = errors.Join(err, b.report.json(o.json))
	}
	return err
}

func parse(args []string) (o options, chosen []workload, err error) {
	o.sizes = usual
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.short, "short", false, "the short set: smaller tables, fewer cases, more than 20 minutes")
	flags.BoolVar(&o.toy, "toy", false,
		"tiny sizes: every workload runs once, in a minute, and nothing is measured. Not with other sizes")
	flags.StringVar(&o.only, "only", "", "the workloads to run, with commas between; default all")
	flags.IntVar(&o.rows, "rows", usual.rows,
		"due `rows` of a measured part; all other sizes follow. Below 100000 no target is judged")
	flags.IntVar(&o.rounds, "rounds", usual.rounds, "how often each part is measured; the median counts. At least 3")
	flags.IntVar(&o.schedules, "schedules", usual.schedules, "`schedules` of the workload day")
	flags.StringVar(&o.json, "json", "", "write the results to this `file`, too")
	flags.StringVar(&o.dir, "dir", "",
		"where the database goes, and is removed at the end; default the user's cache, /var/tmp for root")
	flags.Func("pg", "a `NAME=VALUE` for the PostgreSQL server, such as wal_compression=lz4; may be given again",
		func(s string) error {
			name, value, ok := strings.Cut(s, "=")
			if !ok {
				return errors.New("want NAME=VALUE")
			}
			settings[name] = value
			return nil
		})
	flags.Usage = func() {
		out := flags.Output()
		fmt.Fprintln(out,
			"usage: go run . [-short] [-toy] [-only floor,peers,...] [-rows N] [-rounds N] [-pg NAME=VALUE] [-json FILE] [-dir DIR]")
		flags.PrintDefaults()
		fmt.Fprintln(out, "\nworkloads:")
		for _, w := range workloads {
			fmt.Fprintf(out, "  %-10s %s\n", w.name, w.about)
		}
		fmt.Fprintln(out,
			"\nIt starts a PostgreSQL of its own and removes it. Free disk space: 6 GB for the short set; 30 GB for all,"+
				"\nof which the 30M rows of scale take about 12 GB, and WAL up to 12 GB.")
	}
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	if flags.NArg() > 0 || o.rounds < 3 || o.rows < 100 || o.schedules < 1000 {
		return o, nil, errors.New("no arguments but flags; -rounds is at least 3, -rows at least 100, -schedules at least 1000")
	}
	if o.toy {
		if o.sizes != usual || o.short {
			return o, nil, errors.New("-toy has sizes of its own: leave out -short, -rows, -rounds and -schedules")
		}
		o.sizes = toys
	}
	for _, w := range workloads {
		if o.toy || !w.alone && (!o.short || !w.long) {
			chosen = append(chosen, w)
		}
	}
	if o.only != "" {
		names := strings.Split(o.only, ",")
		chosen = nil
		for _, name := range names {
			i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
			if i < 0 {
				return o, nil, fmt.Errorf("-only %s: there is no such workload", name)
			}
			chosen = append(chosen, workloads[i])
		}
	}
	return o, chosen, nil
}
