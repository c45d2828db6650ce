package embedded

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

func TestServerStartsAndStopsTwiceAndKeepsItsDataAndURL(t *testing.T) {
	t.Parallel()
	s := setup(t)
	url := s.URL()
	if got := status(t, s); got.state() != "not made yet" {
		t.Errorf("state before the first start is %q", got.state())
	}
	for round := range 2 {
		start(t, s)
		start(t, s)
		if got := status(t, s); !got.Running || got.PID == 0 || !strings.Contains(got.Version, ".") {
			t.Errorf("status of a running server: %+v", got)
		}
		if round == 0 {
			query(t, s, "create table kept as select 1; select 'made'")
		}
		if got := query(t, s, "select count(*) from kept"); got != "1" {
			t.Errorf("round %d sees %s rows", round, got)
		}
		stop(t, s)
		stop(t, s)
		if got := status(t, s); got.Running || got.PID != 0 || got.state() != "stopped" {
			t.Errorf("status of a stopped server: %+v", got)
		}
	}
	if s.URL() != url {
		t.Errorf("the URL was %s and is %s", url, s.URL())
	}
}

func TestServerIsSetUpAsDocumented(t *testing.T) {
	t.Parallel()
	s := open(t, Config{
		Dir:      filepath.Join(tempDir(t), "pg"),
		Settings: map[string]string{"work_mem": "7MB", "application_name": "it's a \"test\""},
	})
	start(t, s)
	for setting, want := range map[string]string{
		"fsync": "on", "data_checksums": "on", "server_encoding": "UTF8", "TimeZone": "UTC",
		"listen_addresses": "", "max_wal_size": "2GB", "work_mem": "7MB",
	} {
		if got := query(t, s, "select current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	const which = "select current_user || ' ' || datname || ' ' || datcollate from pg_database where datname = current_database()"
	if got := query(t, s, which); got != "prescient prescient C" {
		t.Errorf("role, database and collation are %s", got)
	}
}

// A query of the configuration runs as this role.
func TestTheRoleOwnsItsDatabaseAndReachesNoFileOfTheServer(t *testing.T) {
	t.Parallel()
	s := started(t)
	const role = `select rolsuper::text || ' ' || (select datdba::regrole from pg_database where datname = current_database())
		from pg_roles where rolname = current_user`
	if got := query(t, s, role); got != "false prescient" {
		t.Errorf("superuser, and owner: %s", got)
	}
	query(t, s, "create schema own; create table own.kept as select 1; select 'made'")
	db, err := sql.Open("postgres", s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"select pg_read_file('PG_VERSION')", "select pg_ls_dir('.')", "copy own.kept from program 'echo 1'", "copy own.kept to '/tmp/kept'",
		"alter role prescient superuser", "set role postgres", "create extension file_fdw",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		if refused, ok := errors.AsType[*pq.Error](err); !ok || refused.Code != pqerror.InsufficientPrivilege {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestServerIsNotReachableByTCPWhateverTheSettings(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(address)
	s := setup(t)
	s.settings = map[string]string{"fsync": "off", "listen_addresses": "*", "port": port}
	start(t, s)
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Errorf("something listens on %s", address)
	}
	if got := query(t, s, "select current_setting('listen_addresses')"); got != "" {
		t.Errorf("listen_addresses is %q", got)
	}
	info, err := os.Stat(s.socket())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket has mode %v (%v)", info.Mode(), err)
	}
}

func TestConcurrentStartsInOneProcessMakeOneServer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	results := make(chan error)
	for range 4 {
		go func() { results <- s.Start(t.Context()) }()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestConcurrentStartsOfTwoProcessesMakeOneServerThatOutlivesThem(t *testing.T) {
	t.Parallel()
	s := setup(t)
	results := make(chan error)
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), startVariable+"="+s.dir)
		go func() { results <- run(cmd) }()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if got := queryAt(t, s.SuperuserURL(), "select count(*) from pg_stat_activity where backend_type = 'checkpointer'"); got != "1" {
		t.Errorf("%s servers answer", got)
	}
	log, err := os.ReadFile(s.log())
	if err != nil || strings.Count(string(log), "starting PostgreSQL") != 1 {
		t.Errorf("the log does not show one start (%v):\n%s", err, log)
	}
}

func TestServerStartsAfterKill9(t *testing.T) {
	t.Parallel()
	s := started(t)
	query(t, s, "create table kept as select 1; select 'made'")
	if err := syscall.Kill(status(t, s).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for status(t, s).PID != 0 {
	}
	start(t, s)
	if got := query(t, s, "select count(*) from kept"); got != "1" {
		t.Errorf("%s rows are left", got)
	}
}

func TestStartWaitsForProcessesOfAKilledServer(t *testing.T) {
	t.Parallel()
	s := started(t)
	orphan, err := strconv.Atoi(queryAt(t, s.SuperuserURL(), "select pid from pg_stat_activity where backend_type = 'checkpointer'"))
	if err != nil {
		t.Fatal(err)
	}
	server := status(t, s).PID
	for _, kill := range []struct {
		pid    int
		signal syscall.Signal
	}{{orphan, syscall.SIGSTOP}, {server, syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.signal); err != nil {
			t.Fatal(err)
		}
	}
	for status(t, s).PID != 0 {
	}
	result := make(chan error, 1)
	go func() { result <- s.Start(t.Context()) }()
	for log := []byte(nil); len(result) == 0 && !strings.Contains(string(log), "pre-existing shared memory block"); {
		log, _ = os.ReadFile(s.log())
	}
	if err := errors.Join(syscall.Kill(orphan, syscall.SIGCONT), <-result); err != nil {
		t.Error(err)
	}
}

func TestServerStartsWithAStalePidFileWhoseNumberAnotherProgramGot(t *testing.T) {
	t.Parallel()
	s := started(t)
	content, err := os.ReadFile(s.pidFile())
	if err != nil {
		t.Fatal(err)
	}
	socketLock, err := os.ReadFile(filepath.Join(s.socket(), socketFile+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(status(t, s).PID)
	stop(t, s)
	other := s.command(t.Context(), "/bin/sleep", "3600") // PostgreSQL respects processes of its own user only
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	for path, text := range map[string]string{
		s.pidFile(): string(content), filepath.Join(s.socket(), socketFile+".lock"): string(socketLock),
	} {
		text = strings.Replace(text, pid, strconv.Itoa(other.Process.Pid), 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, s.user.uid, s.user.gid); err != nil {
			t.Fatal(err)
		}
	}
	if got := status(t, s); got.PID != 0 {
		t.Errorf("the other program is taken for the server: %+v", got)
	}
	stop(t, s)
	start(t, s)
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other program was hit: %v", err)
	}
}

func TestServerStartsWithAnEmptyPidFile(t *testing.T) {
	t.Parallel()
	s := started(t)
	stop(t, s)
	if err := os.WriteFile(s.pidFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, s)
}

func TestSocketOfALongPathIsInTmpAndKeepsOthersOut(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"too long": filepath.Join(tempDir(t), strings.Repeat("long", 20)),
		"a comma":  filepath.Join(tempDir(t), "a,b"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupIn(t, dir)
			t.Cleanup(func() { _ = os.RemoveAll(s.socket()) })
			if err := os.Mkdir(s.socket(), 0o755); err != nil {
				t.Fatal(err)
			}
			wantError(t, s.Start(t.Context()), s.socket(), "remove it and start again")
			if err := os.Remove(s.socket()); err != nil {
				t.Fatal(err)
			}
			start(t, s)
			query(t, s, "select 1")
		})
	}
}

func TestAServerThatAnotherUserMayHavePutInTmpIsNotAsked(t *testing.T) {
	t.Parallel()
	s := setupIn(t, filepath.Join(tempDir(t), strings.Repeat("long", 20)))
	t.Cleanup(func() { _ = os.RemoveAll(s.socket()) })
	start(t, s)
	if err := os.Chmod(s.socket(), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := s.Status(t.Context())
	for _, err := range []error{err, s.Start(t.Context()), s.Stop(t.Context()), s.CheckSocket()} {
		wantError(t, err, s.socket(), "another user's server may be there")
	}
	if err := os.Chmod(s.socket(), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // only root can give a directory away
		if err := os.Chown(s.socket(), 54321, 54321); err != nil {
			t.Fatal(err)
		}
		wantError(t, s.Start(t.Context()), "of user 54321")
		if err := os.Chown(s.socket(), s.user.uid, s.user.gid); err != nil {
			t.Fatal(err)
		}
	}
	start(t, s)
}

func TestStopOfAServerThatWasNeverStartedMakesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	stop(t, s)
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the directory exists (%v)", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.makeDir(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if err := s.Start(ctx); err == nil {
		t.Error("no error")
	}
}

func TestStatusIsAligned(t *testing.T) {
	t.Parallel()
	status := Status{Running: true, PID: 42, Version: "15.13", Data: "/d/data", Socket: "/d/socket", Log: "/d/server.log"}
	want := `state    running
pid      42
version  15.13
data     /d/data
socket   /d/socket
log      /d/server.log`
	if diff := cmp.Diff(want, status.String()); diff != "" {
		t.Error(diff)
	}
}
