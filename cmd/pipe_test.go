package cmd_test

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// ofThisBinary returns a command of the command line. closed closes its stderr.
func ofThisBinary(t *testing.T, url string, closed bool, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("prescient") // this binary; see TestMain
	if err != nil {
		t.Skip("only the test binary of testscript is prescient: ", err)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	if closed {
		c = exec.CommandContext(context.WithoutCancel(t.Context()), "sh", append([]string{"-c", `exec "$0" "$@" 2>&-`, path}, args...)...)
	}
	c.Env = append(c.Environ(), "PRESCIENT_DATABASE_URL="+url, "PRESCIENT_SERVER_LISTEN=127.0.0.1:0")
	return c
}

// stopped stops a command as a supervisor does. It must end well.
func stopped(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil { // it logs what it does then
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%q ended with %v, because nobody read its log", c.Args, err)
	}
}

// The reader of the log goes away, as when a logger is restarted, and the process still runs and stops as it should.
func TestAServerSurvivesTheReaderOfItsLog(t *testing.T) {
	for command, begun := range map[string]string{"daemon": "connected", "serve": "listening"} {
		t.Run(command, func(t *testing.T) {
			c := ofThisBinary(t, pgtest.URL(t), false, command, "--log-level", "debug")
			log, err := c.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(log)
			for lines.Scan() && !strings.Contains(lines.Text(), begun) {
			}
			_ = log.Close()
			stopped(t, c)
		})
	}
}

// A process that has no stderr from the beginning must not take a connection for it.
func TestACommandWithoutStderrWorks(t *testing.T) {
	url := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := ofThisBinary(t, url, true, "run").Run(); err != nil {
		t.Errorf("run: %v", err)
	}
	var begun time.Time // the session of the run may end after its process
	if err := db.GetContext(t.Context(), &begun, `select clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	c := ofThisBinary(t, url, true, "daemon", "--log-level", "debug")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the daemon to connect", func() (connected bool) {
		err := db.GetContext(t.Context(), &connected, `
			select exists (
				select from pg_stat_activity
				where datname = current_database() and pid <> pg_backend_pid() and application_name like 'prescient%'
					and backend_start > $1
			)`, begun)
		if err != nil {
			t.Fatal(err)
		}
		return connected
	})
	stopped(t, c)
}
