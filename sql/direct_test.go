package sql_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	process "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What stands between, a pooler above all, may give each transaction another session.
func TestStatementsAreKeptPreparedWhereTheServerIsReachedDirectly(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its servers are reached by ports")
	socket, address := pgtest.Direct(t), listening(t)
	tcp := func(address string) string { return "postgres://postgres@" + address + "/postgres?sslmode=disable" }
	for name, test := range map[string]struct {
		url  string
		opts []pgsql.Option
		want int
	}{
		"socket":                   {socket, nil, 1},
		"socket, never":            {socket, []pgsql.Option{pgsql.Unprepared()}, 0},
		"socket, patient":          {socket, []pgsql.Option{pgsql.Patient()}, 1},
		"port":                     {tcp(address), nil, 1},
		"port that is forwarded":   {tcp(forwarded(t, "tcp", "127.0.0.1:0", address)), nil, 0},
		"forwarded, always":        {tcp(forwarded(t, "tcp", "127.0.0.1:0", address)), []pgsql.Option{pgsql.Prepared()}, 1},
		"socket that is forwarded": {behindAnotherSocket(t, socket), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := preparedAfterTwo(t, test.url, test.opts...); got != test.want {
				t.Errorf("%d statements are prepared, want %d", got, test.want)
			}
		})
	}
}

func TestNoStatementIsKeptPreparedThroughAPooler(t *testing.T) {
	t.Parallel()
	if got := preparedAfterTwo(t, pgtest.Pooled(t, pgtest.Direct(t))); got != 0 {
		t.Errorf("%d statements are prepared", got)
	}
}

// preparedAfterTwo is how many statements a connection of Open keeps after two transactions with the same one.
func preparedAfterTwo(t *testing.T, url string, opts ...pgsql.Option) (prepared int) {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 2 {
		tx, err := pgsql.BeginLazy(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.GetContext(t.Context(), &prepared, "select count(*) from pg_prepared_statements where $1", true); err != nil {
			t.Fatal(err)
		}
		tx.End()
	}
	return prepared
}

// listening starts a server of the test's own on a port of loopback, and returns its address.
func listening(t *testing.T) string {
	t.Helper()
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(server.Dir(), "data")
	line, err := os.ReadFile(filepath.Join(data, "postmaster.opts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = free.Close()
	hba := filepath.Join(data, "loopback.conf")
	if err := os.WriteFile(hba, []byte("host all all 127.0.0.1/32 trust\n"), 0o644); err != nil { //nolint:gosec // for the server's user
		t.Fatal(err)
	}
	program, _, _ := strings.Cut(string(line), " ")
	postgres := process.CommandContext(context.WithoutCancel(t.Context()), program, "-D", data, "-c", "listen_addresses=127.0.0.1", //nolint:gosec // the server that was started before
		"-c", "port="+port, "-c", "unix_socket_directories=", "-c", "hba_file="+hba, "-c", "fsync=off")
	if owner, err := os.Stat(data); err != nil {
		t.Fatal(err)
	} else if stat := owner.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		postgres.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}}
	}
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = postgres.Process.Signal(syscall.SIGINT) // a fast shutdown
		_ = postgres.Wait()
	})
	tcp := "postgres://postgres@" + address + "/postgres?sslmode=disable"
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		db, err := pgsql.Open(t.Context(), tcp)
		if err == nil {
			_ = db.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// behindAnotherSocket forwards a socket by the name that PostgreSQL's would have, and returns the URL through it.
func behindAnotherSocket(t *testing.T, direct string) string {
	t.Helper()
	to, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	dir, query := t.TempDir(), to.Query()
	name := ".s.PGSQL." + query.Get("port")
	forwarded(t, "unix", filepath.Join(dir, name), filepath.Join(query.Get("host"), name))
	query.Set("host", dir)
	to.RawQuery = query.Encode()
	return to.String()
}

// forwarded listens, and passes on to address what comes.
func forwarded(t *testing.T, network, listen, to string) (address string) {
	t.Helper()
	l, err := net.Listen(network, listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = near.Close() }()
				far, err := net.Dial(network, to)
				if err != nil {
					return
				}
				defer func() { _ = far.Close() }()
				go func() { _, _ = io.Copy(far, near) }()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return l.Addr().String()
}
