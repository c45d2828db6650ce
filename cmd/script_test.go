package cmd_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/cmd/internal/doctor"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The test binary is also a team's binary: as prescient it is the command line with the jobs of registry. So it is if doctor,
// called by a test in this process, asks its own binary for the settings: otherwise all tests would run again.
func TestMain(m *testing.M) {
	doctor.System = cmp.Or(os.Getenv("ETC"), os.DevNull) // not the crontabs of the machine
	if len(os.Args) > 1 && os.Args[1] == "config" {
		cmd.Main(registry(), hello)
	}
	testscript.Main(tests{m}, map[string]func(){
		"prescient": func() { cmd.Main(registry(), hello) },
	})
}

type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Main(t.M) }

// hello is a command of the team's own.
func hello(app *cmd.App) *cobra.Command {
	return &cobra.Command{Use: "hello", Args: cobra.NoArgs, Run: func(c *cobra.Command, _ []string) {
		url, err := app.URL(c.Context())
		ok, _ := app.Registry().Lookup("ok")
		c.Println(app.Name, app.Config().Run.Page, url != "", err, ok.MaxChecks)
		app.Log().InfoContext(c.Context(), "greeted")
	}}
}

func registry() *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	r.Register("fail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the warehouse\ndoes not answer")
	}), jobs.Retry(0))
	r.Register("again", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(24 * time.Hour)), nil
	}))
	r.Register("promised", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.SLA(time.Second))
	r.Register("late", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.Deadline(time.Second))
	r.Register("stop", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	r.Register("hangup", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		for range 2 { // as a shell and the kernel each send one when a terminal is closed
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				return nil, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
		return nil, ctx.Err()
	}))
	r.Register("logout", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		for _, sent := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} { // its terminal, and then its session
			if err := syscall.Kill(os.Getpid(), sent); err != nil {
				return nil, err
			}
			time.Sleep(200 * time.Millisecond) // within run.grace; a signal that kills has the time to do so
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	r.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { select {} }), jobs.Timeout(50*time.Millisecond))
	return r
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               setup,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"mends":     mends,
			"tells":     tells,
			"unblocks":  unblocks,
			"sql":       runSQL,
			"settled":   settled,
			"forwarded": forwarded,
			"schema":    createSchema,
			"due":       due,
			"in":        dueIn,
			"empty":     empty,
			"embedded":  useEmbedded,
			"login":     login,
			"service":   service,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "citus":
				return pgtest.OnCitus(), nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
	})
}

// setup gives a script a migrated database of its own, and the midnights around now by the database's clock: slots of
// every width. NOON, ONE, TWO and THREE are o'clock of yesterday. VERSION is the schema's, and NEWER one that is newer.
func setup(env *testscript.Env) error {
	t := env.T().(testing.TB)
	url := pgtest.URL(t)
	env.Values["t"], env.Values["pools"] = t, pools{}
	env.Setenv("PRESCIENT_DATABASE_URL", url)
	env.Setenv("PRESCIENT_LOG_LEVEL", "info") // what was done, also where nobody reads
	env.Setenv("LOGNAME", "alice")
	env.Setenv("ETC", filepath.Join(env.WorkDir, "etc"))
	// Nor does a script have the crontab of who runs the test.
	none := filepath.Join(env.WorkDir, "none")
	if err := os.Mkdir(none, 0o700); err != nil {
		return err
	}
	const crontab = "#!/bin/sh\necho no crontab >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(none, "crontab"), []byte(crontab), 0o700); err != nil { //nolint:gosec // a program
		return err
	}
	env.Setenv("PATH", none+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would sleep a second at each exit
	env.Setenv("GOGC", "off")                 // a quarter of the CPU time of a command that prints its version
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var now time.Time
	// A script keeps its days. So one that would begin just before midnight begins at midnight.
	if err := db.GetContext(t.Context(), &now, `
		select clock_timestamp()
		from pg_sleep_until(date_trunc('day', clock_timestamp() + interval '2 minutes', 'UTC'))`); err != nil {
		return err
	}
	env.Setenv("VERSION", strconv.Itoa(pgsql.SchemaVersion))
	env.Setenv("NEWER", strconv.Itoa(pgsql.SchemaVersion+1))
	today := now.UTC().Truncate(24 * time.Hour)
	for name, days := range map[string]int{"BEFORE": -2, "YESTERDAY": -1, "TODAY": 0, "TOMORROW": 1, "AFTER": 2} {
		env.Setenv(name, today.AddDate(0, 0, days).Format(time.RFC3339))
	}
	env.Setenv("NOON", today.Add(-12*time.Hour).Format(time.RFC3339)) // of yesterday, and slots after it
	env.Setenv("ONE", today.Add(-11*time.Hour).Format(time.RFC3339))
	env.Setenv("TWO", today.Add(-10*time.Hour).Format(time.RFC3339))
	env.Setenv("THREE", today.Add(-9*time.Hour).Format(time.RFC3339))
	env.Setenv("FOLDER", today.Format("0601021504")) // of TODAY in a spool
	return nil
}

func tb(ts *testscript.TestScript) testing.TB { return ts.Value("t").(testing.TB) }

// pools has a script's own connections by URL, because a session costs as much as a statement of a command.
type pools map[string]*sqlx.DB

// database returns the pool of the script's database.
func database(ts *testscript.TestScript) *sqlx.DB {
	open, url := ts.Value("pools").(pools), ts.Getenv("PRESCIENT_DATABASE_URL")
	if open[url] == nil {
		db, err := pgsql.Open(tb(ts).Context(), url)
		ts.Check(err)
		ts.Defer(func() { _ = db.Close() })
		open[url] = db
	}
	return open[url]
}

// exits CODE COMMAND... runs a command that must end with this code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// remedy returns the remedy of a finding of "status" or "doctor", with or without exit code 3. It is empty if there is no such
// finding.
func remedy(ts *testscript.TestScript, command, name string) string {
	args := []string{command, "-o", "json"}
	if command == "status" {
		// The slot that has begun last began at midnight, which may be less than an hour ago.
		args = append(args, "--check", "--threshold", "overdue=1s")
	}
	_ = ts.Exec("prescient", args...) // the exit code tells of other findings, too
	var view struct {
		Findings []struct{ Condition, Remedy, Name, Do string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &view))
	for _, f := range view.Findings {
		if f.Condition+f.Name == name {
			return f.Remedy + f.Do
		}
	}
	return ""
}

// follow executes a remedy as an operator types it: a command line for a shell, or a statement of SQL.
func follow(ts *testscript.TestScript, text string) {
	text, _, _ = strings.Cut(text, "  -- ")
	if match := named.FindStringSubmatch(text); match != nil {
		text = match[1]
	}
	if strings.HasPrefix(text, "prescient ") {
		ts.Check(ts.Exec("sh", "-c", text))
		return
	}
	runSQL(ts, false, []string{text})
}

// mends status|doctor FINDING executes the remedy of a finding, which must end it.
func mends(ts *testscript.TestScript, _ bool, args []string) {
	text := remedy(ts, args[0], args[1])
	if text == "" {
		ts.Fatalf("%s does not find %s", args[0], args[1])
	}
	follow(ts, text)
	if remedy(ts, args[0], args[1]) != "" {
		ts.Fatalf("%s still finds %s after: %s", args[0], args[1], text)
	}
}

// tells status|doctor FINDING PATTERN executes the remedy of a finding, which must print what it is about.
func tells(ts *testscript.TestScript, _ bool, args []string) {
	text := remedy(ts, args[0], args[1])
	if text == "" {
		ts.Fatalf("%s does not find %s", args[0], args[1])
	}
	follow(ts, text)
	if out := ts.ReadFile("stdout"); !regexp.MustCompile(args[2]).MatchString(out) {
		ts.Fatalf("%s does not print %s", text, args[2])
	}
}

// named finds the commands that a message names.
var named = regexp.MustCompile(`with: (prescient [^,;.\n]+)`)

// unblocks COMMAND... runs a command that must fail, and every command that its message names, in their order. After that the
// command must succeed.
func unblocks(ts *testscript.TestScript, _ bool, args []string) {
	if ts.Exec(args[0], args[1:]...) == nil {
		ts.Fatalf("it succeeds without a remedy")
	}
	message := ts.ReadFile("stderr")
	found := named.FindAllStringSubmatch(message, -1)
	if len(found) == 0 {
		ts.Fatalf("the message names no command")
	}
	for _, match := range found {
		_ = ts.Exec("sh", "-c", match[1]) // which may report, by its exit code, what it has found
	}
	if err := ts.Exec(args[0], args[1:]...); err != nil {
		ts.Fatalf("it fails after what it named: %s", message)
	}
}

// sql STATEMENT runs a statement on the script's database. Scripts cannot write single quotes next to variables, so
// double ones stand for them. sql @FILE runs a file as it is.
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.ReplaceAll(strings.Join(args, " "), `"`, "'")
	if name, is := strings.CutPrefix(text, "@"); is {
		text = ts.ReadFile(name)
	}
	_, err := database(ts).ExecContext(tb(ts).Context(), text)
	ts.Check(err)
}

// settled waits until readers see the events that are committed. Open transactions of other databases hold them back, too.
func settled(ts *testscript.TestScript, _ bool, _ []string) {
	t, db := tb(ts), database(ts)
	var last, ended uint64
	ts.Check(db.GetContext(t.Context(), &last, "select pg_current_xact_id()::text"))
	await.True(t, "the end of other transactions", func() bool {
		ts.Check(db.GetContext(t.Context(), &ended, "select pg_snapshot_xmin(pg_current_snapshot())::text"))
		return ended > last
	})
}

// forwarded sends the events that wait. A run sends those that it sees, and open transactions of other databases hide its
// own from it. A destination may be down.
func forwarded(ts *testscript.TestScript, not bool, _ []string) {
	settled(ts, not, nil)
	_ = ts.Exec("prescient", "events", "forward")
}

// schema NAME creates a schema whose tables may have rules.
func createSchema(ts *testscript.TestScript, _ bool, args []string) {
	runSQL(ts, false, []string{pgtest.CreateSchema(args[0])})
}

// due SLOT JOB KEY... puts checks of orders into a slot, of the past too.
func due(ts *testscript.TestScript, not bool, args []string) {
	dueIn(ts, not, append([]string{"prescient"}, args...))
}

// in SCHEMA SLOT JOB KEY... is due for another schema.
func dueIn(ts *testscript.TestScript, _ bool, args []string) {
	for _, key := range args[3:] {
		runSQL(ts, false, []string{
			"insert into " + args[0] + ".future_job (job, entity_name, entity_key, first_check_at, next_check_at)",
			"values (" + args[0] + ".ensure_job('" + args[2] + "'), 'order', '" + key + "', '" + args[1] + "', '" + args[1] + "')",
		})
	}
}

// login NAME [ROLE] lets the script be another user of its database, who is made when a role of the script's schema is
// given, or nothing is known of him, and is gone at the end. Without a name it is the first one again.
func login(ts *testscript.TestScript, _ bool, args []string) {
	if ts.Getenv("FIRST_URL") == "" {
		ts.Setenv("FIRST_URL", ts.Getenv("PRESCIENT_DATABASE_URL"))
		schema, t := ts.Getenv("PRESCIENT_DATABASE_SCHEMA"), tb(ts)
		db, err := pgsql.Open(t.Context(), ts.Getenv("FIRST_URL"))
		ts.Check(err)
		t.Cleanup(func() { _ = db.Close() })
		pgtest.DropRoles(t, db, schema+"_")
	}
	ts.Setenv("PRESCIENT_DATABASE_URL", ts.Getenv("FIRST_URL"))
	if len(args) == 0 {
		return
	}
	runSQL(ts, false, []string{
		"do $$ begin if to_regrole(\"" + args[0] + "\") is null then create role " + args[0] + " login password \"secret\"; end if; end $$",
	})
	if len(args) > 1 {
		runSQL(ts, false, []string{"grant " + ts.Getenv("PRESCIENT_DATABASE_SCHEMA") + "_" + args[1] + " to " + args[0]})
	}
	as, err := url.Parse(ts.Getenv("FIRST_URL"))
	ts.Check(err)
	as.User = url.UserPassword(args[0], "secret")
	ts.Setenv("PRESCIENT_DATABASE_URL", as.String())
}

// empty gives the script a database without the schema.
func empty(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("PRESCIENT_DATABASE_URL", pgtest.Empty(tb(ts)))
}

// service STATUS starts an HTTP service that answers each request with a status. Its address is in SERVICE.
func service(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	tb(ts).Cleanup(server.Close)
	ts.Setenv("SERVICE", server.Listener.Addr().String())
}

// embedded lets the script use the private PostgreSQL, in a directory that the server's user can reach, and stops it
// at the end.
func useEmbedded(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := os.MkdirTemp("", "prescient")
	ts.Check(err)
	ts.Check(os.Chmod(dir, 0o755))
	ts.Setenv("XDG_DATA_HOME", dir)
	ts.Setenv("PRESCIENT_DATABASE_URL", config.Embedded)
	server, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "prescient", "postgres")})
	ts.Check(err)
	tb(ts).Cleanup(func() {
		if err := errors.Join(server.Stop(context.Background()), os.RemoveAll(dir)); err != nil {
			tb(ts).Error(err)
		}
	})
}
