package cmd_test

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// The reader of the log goes away, as when a logger is restarted, and the daemon still runs and stops as it should.
func TestADaemonSurvivesTheReaderOfItsLog(t *testing.T) {
	path, err := exec.LookPath("prescient") // this binary; see TestMain
	if err != nil {
		t.Skip("only the test binary of testscript is prescient: ", err)
	}
	c := exec.CommandContext(t.Context(), path, "daemon", "--log-level", "debug")
	c.Env = append(c.Environ(), "PRESCIENT_DATABASE_URL="+pgtest.URL(t))
	log, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "connected") {
	}
	_ = log.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil { // it logs what it does then
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the daemon ended with %v, because nobody read its log", err)
	}
}
