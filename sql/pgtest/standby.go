package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/embedded"
	pgsql "github.com/prescient-go/prescient/sql"
)

// StandBy starts a server of Private, which may run already, as a hot standby that waits for a
// primary.
func StandBy(t testing.TB, server *embedded.Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // for the server's user
	err := os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644)
	if err := errors.Join(err, server.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// ErrNoBackup is returned for a server whose programs have no pg_basebackup, as those that npm fetches.
var ErrNoBackup = errors.New("pg_basebackup is not where the server's programs are")

// Follow starts a server that has no data yet as a standby of a primary that runs. It returns once the primary
// acknowledges a commit only if the standby has it. Returns ErrNoBackup. After an error the primary waits for no
// standby, and the caller stops the standby and removes its directory.
func Follow(ctx context.Context, standby, primary *embedded.Server) (err error) {
	if err := copyData(ctx, standby, primary); err != nil {
		return fmt.Errorf("copy the data of the primary: %w", err)
	}
	if err := standby.Start(ctx); err != nil {
		return err
	}
	db, err := pgsql.Open(ctx, primary.SuperuserURL())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	change := func(ctx context.Context, statement string) error {
		_, err := db.ExecContext(ctx, statement)
		if err == nil {
			_, err = db.ExecContext(ctx, "select pg_reload_conf()")
		}
		return err
	}
	defer func() {
		if err != nil {
			ctx := context.WithoutCancel(ctx)
			err = errors.Join(err, change(ctx, "alter system reset synchronous_standby_names"))
		}
	}()
	if err := change(ctx, "alter system set synchronous_standby_names = '*'"); err != nil {
		return err
	}
	return repeat(ctx, "the standby to be synchronous", func() (synchronous bool, err error) {
		err = db.GetContext(ctx, &synchronous, "select count(*) > 0 from pg_stat_replication where sync_state = 'sync'")
		return synchronous, err
	})
}

// copyData gives a standby a copy of the data of its primary, and the address to follow it.
func copyData(ctx context.Context, standby, primary *embedded.Server) error {
	status, err := primary.Status(ctx)
	if err != nil {
		return err
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", status.PID))
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(primary.Dir(), "data"))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	data := filepath.Join(standby.Dir(), "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	//nolint:gosec // the server's user must be able to enter it
	if err := errors.Join(os.Chmod(standby.Dir(), 0o755), os.Chown(data, int(owner.Uid), int(owner.Gid))); err != nil {
		return err
	}
	backup := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program), "pg_basebackup"),
		"--pgdata", data, "--write-recovery-conf", "--host", status.Socket, "--port", "5432", "--username", "postgres",
		"--checkpoint", "fast", "--no-sync", "--no-password")
	backup.Dir = "/"
	backup.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		backup.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	// It has a process of its own for the log, which would stay and keep this waiting.
	backup.Cancel = func() error { return syscall.Kill(-backup.Process.Pid, syscall.SIGKILL) }
	if out, err := backup.CombinedOutput(); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoBackup, err)
	} else if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Promote makes a standby the primary.
func Promote(ctx context.Context, standby *embedded.Server) error {
	return repeat(ctx, "the promotion", func() (promoted bool, err error) {
		db, err := pgsql.Open(ctx, standby.SuperuserURL())
		if err != nil {
			return false, err
		}
		defer func() { _ = db.Close() }()
		err = db.GetContext(ctx, &promoted, "select pg_promote()")
		return promoted, err
	})
}

// repeat calls fn until it returns true, for up to patience.
func repeat(ctx context.Context, what string, fn func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	for {
		done, err := fn()
		if done && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// PowerOff kills each process of a server, as if its machine had lost power. No session writes after the first one is
// dead. The server must not start again. A server that does not run is left as it is.
func PowerOff(ctx context.Context, server *embedded.Server) error {
	status, err := server.Status(ctx)
	if err != nil || status.PID == 0 {
		return err
	}
	if err := syscall.Kill(status.PID, syscall.SIGSTOP); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", status.PID, status.PID))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		return err
	}
	return removeMemory(ctx, filepath.Join(server.Dir(), "data", "postmaster.pid"))
}

// removeMemory removes the shared memory of a server that was killed. A server that starts again would do it.
func removeMemory(ctx context.Context, pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return nil
	}
	var key, id int64
	if _, err := fmt.Sscan(lines[6], &key, &id); err != nil {
		return fmt.Errorf("read the number of the shared memory: %w", err)
	}
	//nolint:gosec // a number
	if out, err := exec.CommandContext(ctx, "ipcrm", "-m", strconv.FormatInt(id, 10)).CombinedOutput(); err != nil {
		return fmt.Errorf("remove the shared memory: %w\n%s", err, out)
	}
	return nil
}
