package slots_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// pooled starts pgbouncer in transaction mode before the database of a world, and returns a pool that goes through it.
func pooled(t *testing.T, w *world) *sqlx.DB {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("this needs pgbouncer: apt-get install pgbouncer")
	}
	var at struct{ Socket, Port, Database, Data, Role string }
	err = w.db.Get(&at, `select split_part(current_setting('unix_socket_directories'), ',', 1) as socket, current_setting('port') as port,
		current_database() as database, current_setting('data_directory') as data, current_user as role`)
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	ini := fmt.Sprintf("[databases]\n%s = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = transaction\nserver_reset_query_always = 0\ndefault_pool_size = 20\n", at.Database, at.Socket, at.Port, at.Role, port)
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	if err := errors.Join(os.WriteFile(config, []byte(ini), 0o644), os.Chmod(filepath.Dir(config), 0o755), os.Chmod(filepath.Dir(filepath.Dir(config)), 0o755)); err != nil {
		t.Fatal(err)
	}
	pooler := exec.Command(path, "-q", config)
	if os.Getuid() == 0 { // which it refuses: as the owner of the server
		info, err := os.Stat(at.Data)
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		pooler.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	pooler.Stdout, pooler.Stderr = os.Stderr, os.Stderr
	if err := pooler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(pooler.Process.Kill(), pooler.Wait()) })
	address := (&url.URL{Scheme: "postgres", User: url.User(at.Role), Host: "127.0.0.1:" + port, Path: at.Database, RawQuery: "sslmode=disable"}).String()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		db, err := pgsql.Open(t.Context(), address)
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
		if time.Now().After(until) {
			t.Fatal("pgbouncer: ", err)
		}
	}
}

// A pooler in transaction mode gives every transaction another session.
func TestEveryShapeOfAJobRunsThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table public.effect (key text)`)
	affect := func(ctx context.Context, tx *sqlx.Tx, rows ...jobs.FutureJob) error {
		for _, r := range rows {
			if _, err := tx.ExecContext(ctx, `insert into public.effect values ($1)`, r.JobExec+r.EntityKey); err != nil {
				return err
			}
		}
		return nil
	}
	each := func(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(rows)), affect(ctx, tx, rows...)
	}
	w.registry.Register("plain", done)
	w.registry.RegisterTx("tx", func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return nil, affect(ctx, tx, job)
	})
	w.registry.RegisterBatch("batch", func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(rows)), nil
	})
	w.registry.RegisterBatchTx("batchtx", each)
	w.registry.RegisterGroup("family", []string{"group"}, each)
	names := []string{"plain", "tx", "batch", "batchtx", "group"}

	db := pooled(t, w)
	var err error
	if w.client, err = jobs.NewClient(t.Context(), db, jobs.Config{Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	direct := w.db
	w.db = db
	for _, job := range names {
		w.enqueue(job, slot(1), 200)
	}
	w.clock.Set(slot(1))
	first, second := w.background(slot(1), func(c *slots.Config) { c.Name = "first" }), w.background(slot(1), func(c *slots.Config) { c.Name = "second" })
	if checked := (<-first).Checked + (<-second).Checked; checked != 1000 {
		t.Errorf("%d rows were checked, want 1000", checked)
	}
	w.db = direct
	if n := w.count(`select count(*) from prescient.future_job_history where outcome = 'done' and error_count = 0`); n != 1000 {
		t.Errorf("%d rows are done, want 1000", n)
	}
	if n, keys := w.count(`select count(*) from public.effect`), w.count(`select count(distinct key) from public.effect`); n != 600 || keys != 600 {
		t.Errorf("%d effects of %d rows, want one of each of 600", n, keys)
	}
	if n := w.count(`select count(*) from prescient.slot_claim`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}
