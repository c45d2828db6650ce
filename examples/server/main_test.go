package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asBinary makes the test binary be the program.
const asBinary = "SERVER_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		main()
		return
	}
	os.Exit(pgtest.Main(m))
}

// shop is a database with slots of one second and the tables of the shop.
type shop struct {
	*testing.T
	url string
	db  *sqlx.DB
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, url: pgtest.URL(t)}
	var err error
	if s.db, err = pgsql.Open(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	tables, err := os.ReadFile("tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.exec(string(tables))
	s.command("slots", "set-width", "1s")
	return s
}

// process is the program with arguments, as a process of its own.
func (s *shop) process(args ...string) *exec.Cmd {
	c := exec.CommandContext(s.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asBinary+"=1", "PRESCIENT_DATABASE_URL="+s.url, "LISTEN=127.0.0.1:0")
	return c
}

func (s *shop) command(args ...string) {
	s.Helper()
	if out, err := s.process(args...).CombinedOutput(); err != nil {
		s.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (s *shop) exec(query string, args ...any) {
	s.Helper()
	err := pgsql.InTx(context.WithoutCancel(s.Context()), s.db, func(tx *sqlx.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) list(query string) (values []string) {
	s.Helper()
	read := func(tx *sqlx.Tx) error { return tx.Select(&values, query) }
	if err := pgsql.ReadTx(context.WithoutCancel(s.Context()), s.db, read); err != nil {
		s.Fatal(err)
	}
	return values
}

// lock takes a lock that blocks writes to a table. unlock releases it.
func (s *shop) lock(table string) (unlock func()) {
	s.Helper()
	tx, err := s.db.BeginTxx(context.WithoutCancel(s.Context()), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = tx.Rollback() })
	tx.MustExec(`lock table ` + table + ` in share mode`)
	return func() { _ = tx.Rollback() }
}

// place has n orders placed, with a check in the next slot. It returns that slot.
func (s *shop) place(n int) (slot string) {
	s.Helper()
	s.exec(`insert into orders (id) select generate_series(1, $1::int)`, n)
	s.exec(`select prescient.enqueue_many(
			array_agg('order.unshipped'::text), array_agg('orders'::text), array_agg(id::text), array_agg(''::text),
			array_agg(now() + interval '5 seconds')) from orders`)
	slots := s.list(`select distinct to_char(next_check_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
		from prescient.future_job`)
	if len(slots) != 1 {
		s.Fatalf("the checks are in slots %v", slots)
	}
	return slots[0]
}

// eventually waits until a query returns something.
func (s *shop) eventually(what, query string) {
	s.Helper()
	for deadline := time.Now().Add(5 * time.Minute); len(s.list(query)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited in vain for %s", what)
		}
	}
}

// server is the program without arguments.
type server struct {
	*exec.Cmd
	address string
	lines   chan string
	log     bytes.Buffer // complete after lines is closed
}

var listening = regexp.MustCompile(`listening address=(\S+)`)

func (s *shop) startServer() *server {
	s.Helper()
	v := &server{Cmd: s.process(), lines: make(chan string, 1000)}
	pipe, err := v.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := v.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(v.lines)
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			v.log.WriteString(scanner.Text() + "\n")
			v.lines <- scanner.Text()
		}
	}()
	v.address = listening.FindStringSubmatch(v.await(s, "listening"))[1]
	return v
}

// await returns the next line of the log that has a text.
func (v *server) await(s *shop, text string) string {
	s.Helper()
	for line := range v.lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	s.Fatalf("the server has ended, and its log lacks %q:\n%s", text, &v.log)
	return ""
}

// terminate sends SIGTERM, calls meanwhile when the server begins to stop, and waits until the
// server has ended well.
func (v *server) terminate(s *shop, meanwhile func()) {
	s.Helper()
	if err := v.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	v.await(s, "daemon is stopping")
	meanwhile()
	for range v.lines {
		continue
	}
	if err := v.Wait(); err != nil {
		s.Errorf("the server ended with %v:\n%s", err, &v.log)
	}
}

// The rows of one slot are blocked until both the server and a run of cron have claimed some of
// them.
func TestAServerAndACronRunShareASlotAndCheckEachRowOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	unlock := s.lock("alert")
	server := s.startServer()
	slot := s.place(3000)
	s.eventually("a claim of the server", `select runner from prescient.slot_claim where first_id > 0`)
	cron := s.process("run", "--slot", slot)
	cron.Env = append(cron.Environ(), "PRESCIENT_RUN_PAGE=100")
	if err := cron.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("claims of both",
		`select '' from prescient.slot_claim where cardinality(jobs) > 0 having count(distinct runner) = 2`)
	unlock()
	if err := cron.Wait(); err != nil {
		t.Error(err)
	}
	s.eventually("the end of the slot", `select '' where not exists (select from prescient.future_job)`)
	server.terminate(s, func() {})

	got := s.list(`select concat_ws(' ', count(*), count(distinct order_id),
		(select count(distinct runner) from prescient.future_job_history),
		(select string_agg(distinct outcome::text, ' ') from prescient.future_job_history)) from alert`)
	if diff := cmp.Diff([]string{"3000 3000 2 done"}, got); diff != "" {
		t.Errorf("alerts, orders with one, runners, outcomes (-want +got):\n%s", diff)
	}
}

func TestAServerThatGetsSIGTERMFinishesItsRequestsAndItsChecks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	server := s.startServer()
	s.place(1)
	unlock := s.lock("alert, orders")
	answered := make(chan int, 1)
	go func() {
		response, err := http.PostForm("http://"+server.address+"/orders", url.Values{"id": {"42"}})
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	s.eventually("a request and a check that wait for the lock",
		`select '' from pg_locks where not granted and relation in ('alert'::regclass, 'orders'::regclass)
			having count(distinct relation) = 2`)
	server.terminate(s, unlock)

	if status := <-answered; status != http.StatusCreated {
		t.Errorf("the request was answered with %d", status)
	}
	got := s.list(`select entity_key || ' ' || outcome from prescient.future_job_history
		union all select entity_key || ' waits' from prescient.future_job`)
	if diff := cmp.Diff([]string{"1 done", "42 waits"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAServerThatGetsSIGTERMEndsThoughARequestHasNoEnd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	server := s.startServer()
	client, err := net.Dial("tcp", server.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_, err = client.Write([]byte("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 10\r\nExpect: 100-continue\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != nil { // the handler asks for the body
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { _ = server.Process.Kill() })
	defer kill.Stop()
	server.terminate(s, func() {})
}

// A team copies what the page shows. It must stay short.
func TestTheServerRunsItsSlotsInFifteenLines(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(source), "\nfunc serve(")
	body, _, closed := strings.Cut(body, "\n}\n")
	if n := strings.Count(body, "\n"); !found || !closed || n > 15 {
		t.Errorf("serve has %d lines", n)
	}
}
