package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	pgsql "github.com/prescient-go/prescient/sql"
)

// poolerVariable, when it is set, puts a pooler before every database of New and URL.
const poolerVariable = "PRESCIENT_TEST_POOLER"

// underShell starts the pooler again when it dies, as a service manager does: 1.18.0 sometimes ends
// when a client is killed. It ends the pooler when standard input ends, so that it does not outlive
// the tests.
const underShell = `(
	trap 'kill $!; exit' TERM
	while :; do "$1" -q "$2" & wait $!; sleep 0.1; done
) 2>/dev/null & read -r _; kill $!; wait`

// poolerConfig has few connections, so that hardly a transaction gets the session of the one
// before.
const poolerConfig = `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = %s
server_reset_query_always = 0
default_pool_size = 20
max_client_conn = 1000
`

// Pooled starts PgBouncer in transaction mode before a database, and returns the URL through it.
// Every user becomes the one of the URL. It skips the test if PgBouncer is not installed.
func Pooled(t testing.TB, direct string) string {
	t.Helper()
	return PooledIn(t, direct, "transaction")
}

// PooledIn is Pooled for any pool_mode.
func PooledIn(t testing.TB, direct, mode string) string {
	t.Helper()
	NotOnCitus(t, "nobody has tried a pooler before the coordinator")
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("this needs pgbouncer: apt-get install pgbouncer")
	}
	to, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	host, port := to.Hostname(), to.Port()
	if socket := to.Query().Get("host"); socket != "" {
		host, port = socket, to.Query().Get("port")
	}
	dir, err := os.MkdirTemp("", "prescient-pooler-")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	//nolint:gosec // for the pooler's user
	if err := os.WriteFile(config, fmt.Appendf(nil, poolerConfig, host, port, to.User.Username(), dir, mode),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	startPooler(t, program, config, host)
	to.Host, to.RawQuery = "", url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}.Encode()
	awaitPooler(t, to.String())
	return to.String()
}

// startPooler starts PgBouncer. Root cannot run it, so root starts it as the owner of the server's
// socket.
func startPooler(t testing.TB, program, config, socket string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", underShell, "sh", program, config) //nolint:noctx // ends with its input
	if info, err := os.Stat(socket); err == nil && os.Getuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		if err := os.Lchown(filepath.Dir(config), int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	pipe, err := cmd.StdinPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(pipe.Close(), cmd.Wait()) })
}

func awaitPooler(t testing.TB, through string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		db, err := pgsql.Open(ctx, through)
		if err == nil {
			_ = db.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("pgbouncer: ", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
