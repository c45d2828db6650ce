package cmd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// starting returns the URL of a database whose server says that it still starts, to so many connections.
func starting(t *testing.T, direct string, refusals int) string {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	query := u.Query()
	network, server := "tcp", u.Host
	if dir := query.Get("host"); dir != "" { // the server of the tests
		network, server = "unix", filepath.Join(dir, ".s.PGSQL."+query.Get("port"))
	}
	work.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close() //nolint:errcheck // of a test
				if n < refusals {
					const fields = "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is starting up\x00\x00"
					_, _ = conn.Read(make([]byte, 1000))
					_, _ = conn.Write(append(binary.BigEndian.AppendUint32([]byte("E"), uint32(len(fields)+4)), fields...))
					return
				}
				relay(conn, network, server)
			})
		}
	})
	query.Del("host")
	query.Del("port")
	u.Host, u.RawQuery = listener.Addr().String(), query.Encode()
	return u.String()
}

// relay connects two ends until one of them closes.
func relay(conn net.Conn, network, server string) {
	to, err := net.Dial(network, server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to)
}

// begin runs a command beside the test. stop sends the process the signal to stop.
func begin(t *testing.T, args []string) (log *syncBuffer, stop func(), ended <-chan Code) {
	t.Helper()
	log = new(syncBuffer)
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, log
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	code := make(chan Code, 1)
	go func() { code <- app.Run(ctx, args) }()
	return log, stop, code
}

func TestADaemonWaitsForAServerThatStarts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"daemon"}, {"daemon", "--listen", "127.0.0.1:0"}, {"serve", "--listen", "127.0.0.1:0"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			log, stop, ended := begin(t, append(args, "--database-url", starting(t, pgtest.Direct(t), 2)))
			await.True(t, "the command to work: "+strings.Join(args, " "), func() bool {
				return len(ended) > 0 || strings.Contains(log.String(), "msg=connected") || strings.Contains(log.String(), "daemon is ready")
			})
			stop()
			if code := await.Receive(t, "the command to end", ended); code != Done {
				t.Errorf("exit code %d\n%s", code, log)
			}
			if n := strings.Count(log.String(), "the database takes no connections yet"); n != 1 {
				t.Errorf("the log says %d times why it waits:\n%s", n, log)
			}
		})
	}
}

func TestADaemonThatIsToldToEndWhileItWaitsForAServerIsDone(t *testing.T) {
	again := database.TryAgain
	database.TryAgain = await.Limit // so that it waits when it is told
	t.Cleanup(func() { database.TryAgain = again })
	for _, args := range [][]string{{"daemon"}, {"daemon", "--listen", "127.0.0.1:0"}, {"serve", "--listen", "127.0.0.1:0"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Setenv("PRESCIENT_DATABASE_URL", starting(t, pgtest.Direct(t), math.MaxInt))
			log, stop, ended := begin(t, args)
			await.True(t, "the command to wait", func() bool {
				return len(ended) > 0 || strings.Contains(log.String(), "the database takes no connections yet")
			})
			if slices.Contains(args, "--listen") {
				url := "http://" + listens(t, log)
				for path, want := range map[string]int{
					"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusServiceUnavailable,
					"/metrics": http.StatusOK, "/": http.StatusServiceUnavailable, schedules: http.StatusServiceUnavailable,
				} {
					status, text := ask(t, http.MethodGet, url+path, "", "")
					if status != want {
						t.Errorf("%s while it waits: %d %s", path, status, text)
					}
					if content := path == "/" || path == schedules; content && !strings.Contains(text, "before the database answers") {
						t.Errorf("%s tells everybody of the database: %s", path, text)
					}
				}
			}
			stop()
			if code := await.Receive(t, "the command to end", ended); code != Done {
				t.Errorf("exit code %d\n%s", code, log)
			}
		})
	}
}

// serve runs a daemon, or the server, until the test ends, and returns where it listens.
func serve(t *testing.T, command string, args ...string) (url string) {
	t.Helper()
	url, _ = serveWith(t, jobs.NewRegistry(), command, args...)
	return url
}

// serveWith is serve with the jobs of a registry. stop sends the process the signal to stop.
func serveWith(t *testing.T, registry *jobs.Registry, command string, args ...string) (url string, stop func()) {
	t.Helper()
	return serveLogging(t, new(syncBuffer), registry, command, args...)
}

// serveLogging is serveWith with a log.
func serveLogging(
	t *testing.T, log *syncBuffer, registry *jobs.Registry, command string, args ...string,
) (url string, stop func()) {
	t.Helper()
	if os.Getenv("PRESCIENT_DATABASE_URL") == "" && !slices.Contains(args, "--database-url") {
		t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	}
	app := New(registry)
	app.Out, app.Err = io.Discard, log
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan Code, 1)
	if !slices.Contains(args, "--listen") {
		args = append([]string{"--listen", "127.0.0.1:0"}, args...)
	}
	go func() { ended <- app.Run(ctx, append([]string{command}, args...)) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != Done {
			t.Errorf("exit code %d\n%s", code, log)
		}
	})
	url = "http://" + listens(t, log)
	await.True(t, "pages", func() bool {
		status, _ := ask(t, http.MethodGet, url, "", "")
		return status != http.StatusServiceUnavailable
	})
	return url, stop
}

// listens returns the address at which a server with a log listens.
func listens(t *testing.T, log *syncBuffer) (address string) {
	t.Helper()
	await.True(t, "the server to listen", func() bool {
		found := regexp.MustCompile(`msg=listening .*address=(\S+)`).FindStringSubmatch(log.String())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return address
}

func TestADaemonAnswersTheProbesOfItsManifest(t *testing.T) {
	url := serve(t, "daemon")
	list := containers(t, true)
	c := list[slices.IndexFunc(list, func(c container) bool { return c.Args[0] == "daemon" })]
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		answer := 0
		for deadline := time.Now().Add(await.Limit); answer != http.StatusOK; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d", path, answer)
			}
			answer, _ = ask(t, http.MethodGet, url+path, "", "")
		}
	}
	for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodPost: http.StatusForbidden} {
		if answer, text := ask(t, method, url+schedules, "", "{}"); answer != want {
			t.Errorf("without server.token, %s %s: %d %s", method, schedules, answer, text)
		}
	}
}

// ask sends a request and returns the status and the body of the answer.
func ask(t *testing.T, method, url, token, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// schedules is the path of the schedules.
const schedules = "/api/v1/schedules"

func TestADaemonServesSchedulesToWhoKnowsItsToken(t *testing.T) {
	const token = "a-token-for-this-test"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+token+" the-token-of-another")
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "a-token-that-reads")
	url := serve(t, "daemon")
	for _, wrong := range []string{"", "another-token-altogether"} {
		if status, text := ask(t, http.MethodGet, url+schedules, wrong, ""); status != http.StatusUnauthorized {
			t.Errorf("with the token %q: %d %s", wrong, status, text)
		}
	}
	report := `{"id": "report-42", "crontab": "0 9 * * mon-fri", "timezone": "Europe/Berlin"}`
	if status, text := ask(t, http.MethodPost, url+schedules, token, report); status != http.StatusCreated {
		t.Errorf("create: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodDelete, url+schedules+"/report-42", "a-token-that-reads", ""); status != http.StatusForbidden {
		t.Errorf("delete, with a token that reads: %d %s", status, text)
	}
	for _, reader := range []string{token, "the-token-of-another", "a-token-that-reads"} {
		if status, text := ask(t, http.MethodGet, url+schedules, reader, ""); status != http.StatusOK || !strings.Contains(text, `"report-42"`) {
			t.Errorf("list: %d %s", status, text)
		}
	}
	var actor string
	db := sqlx.MustOpen("postgres", os.Getenv("PRESCIENT_DATABASE_URL"))
	t.Cleanup(func() { _ = db.Close() })
	if err := db.GetContext(t.Context(), &actor, `select actor from prescient.why('schedule', 'report-42') where actor is not null limit 1`); err != nil || actor != "ops from 127.0.0.1" {
		t.Errorf("the schedule was made by %q, %v", actor, err)
	}
}

func TestADaemonTellsDetailsToThoseWhoHaveAToken(t *testing.T) {
	const token = "a-token-that-reads"
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "monitor:"+token)
	url := serve(t, "daemon")
	eventually(t, url+"/healthz", token, "", `"ok":true`, `"next":"`, `"problems":[]`)
	for _, other := range []string{"", "another-token-altogether"} {
		if status, text := ask(t, http.MethodGet, url+"/healthz", other, ""); status != http.StatusOK || strings.TrimSpace(text) != `{"ok":true}` {
			t.Errorf("/healthz with %q: %d %s", other, status, text)
		}
		if status, text := ask(t, http.MethodGet, url+"/metrics", other, ""); status != http.StatusUnauthorized || strings.Contains(text, "prescient_") {
			t.Errorf("/metrics with %q: %d %s", other, status, text)
		}
	}
	eventually(t, url+"/metrics", token, "", "\nprescient_authentication_failures_total 2\n", "\nprescient_database_up 1\n")
	for range 10 {
		ask(t, http.MethodGet, url+"/metrics", "another-token-altogether", "")
	}
	// A collector of metrics with an old token keeps its door shut, and no other.
	for path, want := range map[string]int{"/metrics": http.StatusUnauthorized, "/api/v1/overview": http.StatusOK, "/": http.StatusOK, "/livez": http.StatusOK} {
		if status, _ := ask(t, http.MethodGet, url+path, token, ""); status != want {
			t.Errorf("%s after wrong tokens from this address: %d, want %d", path, status, want)
		}
	}
}

func TestADaemonIsAskedByItsNames(t *testing.T) {
	t.Setenv("PRESCIENT_SERVER_HOSTS", "batch.example.com")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	url := serve(t, "daemon")
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost:8080": http.StatusOK, "10.1.2.3:8080": http.StatusOK, "batch.example.com": http.StatusOK, "prescient.shop.svc:8080": http.StatusOK,
		machine + ":8080": http.StatusOK, "rebound.example.com:8080": http.StatusMisdirectedRequest,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want || want != http.StatusOK && !strings.Contains(string(text), "server.hosts") {
			t.Errorf("asked as %s: %d %s, want %d", host, answer.StatusCode, text, want)
		}
	}
}

func TestADaemonRunsEveryStoreThatCanBeReached(t *testing.T) {
	const token = "a-token-for-this-test"
	t.Setenv("PRESCIENT_SERVER_TOKEN", token)
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "a-token-that-reads")
	database := writeStores(t)
	service := &pings{}
	pinged := httptest.NewServer(service)
	t.Cleanup(pinged.Close)
	t.Setenv("PRESCIENT_RUN_PING_URL", pinged.URL)
	url := serve(t, "daemon")
	eventually(t, url+"/metrics", token, "", `prescient_database_up{store="down"} 0`, `prescient_database_up{store="tenants"} 0`)
	eventually(t, url+"/readyz", token, "", `"ready":true`)
	eventually(t, url+"/healthz", "", "", `{"ok":false}`)
	eventually(t, url+"/healthz", token, "", `store down: connect to the database`, `store tenants: no schema like tenant_* holds the tables`, `"shop":{`)
	eventually(t, url+"/livez", token, "", `"alive":true`)

	// A store that is made later is found.
	db, err := pgsql.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := pgsql.Migrate(t.Context(), db, "tenant_42"); err != nil {
		t.Fatal(err)
	}
	eventually(t, url+"/metrics", token, `store="tenants"`, `prescient_database_up{store="shop"} 1`)
	for _, store := range []string{"shop", "tenants/tenant_42"} { // at a boundary, it runs two slots
		done := `prescient_runs_total{kind="run",result="done",store="` + store + `"} `
		eventually(t, url+"/metrics", token, done+"0", done)
	}
	eventually(t, url+"/healthz", token, "store tenants:", `"tenants/tenant_42":{`) // the pattern is no problem any more

	// The schedules of each have a path of their own.
	report := `{"id": "report-42", "crontab": "0 9 * * mon-fri"}`
	if status, text := ask(t, http.MethodPost, url+"/stores/tenants/tenant_42"+schedules, token, report); status != http.StatusCreated {
		t.Errorf("create: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/stores/shop"+schedules, token, ""); status != http.StatusOK || strings.Contains(text, "report-42") {
		t.Errorf("list of another store: %d %s", status, text)
	}
	for _, path := range []string{schedules, "/stores/nobody" + schedules} {
		if status, text := ask(t, http.MethodGet, url+path, token, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}

	// One that is taken away is gone, and no problem.
	if _, err := db.ExecContext(t.Context(), "drop schema tenant_42 cascade"); err != nil {
		t.Fatal(err)
	}
	eventually(t, url+"/healthz", token, `tenants/tenant_42`, `store tenants: no schema like`)
	eventually(t, url+"/metrics", token, `tenants/tenant_42`, `prescient_database_up{store="down"} 0`)
	if told := service.told(); slices.Contains(told, "POST /") {
		t.Errorf("it reports success while a store is down: %q", told)
	}
}

func TestADaemonOfAShardIsHealthyWithoutTheStoresOfOtherShards(t *testing.T) {
	writeStores(t)
	url := serve(t, "daemon", "--shard", "0/3") // the other entries are in shard 2
	eventually(t, url+"/healthz", "", "has not answered yet", `{"ok":true,`, `"shop":{`)
	eventually(t, url+"/api/v1/stores", "", "has not answered yet", `"name":"shop","ok":true`)
}

func TestADaemonLogsOnceThatAStoreCannotBeUsed(t *testing.T) {
	writeStores(t)
	database.FindAgain = time.Hour
	var log syncBuffer
	t.Cleanup(func() { // when the daemon has ended
		for _, store := range []string{"down", "tenants"} {
			if n := strings.Count(log.String(), `msg="the store cannot be used; trying again" store=`+store+" "); n != 1 {
				t.Errorf("store %s: %d lines in\n%s", store, n, &log)
			}
		}
	})
	url, _ := serveLogging(t, &log, jobs.NewRegistry(), "daemon")
	eventually(t, url+"/healthz", "", "", "store down: connect to the database", "store tenants: no schema like tenant_*")
	eventually(t, url+"/api/v1/stores", "", "", `"name":"shop","ok":true`, "connect to the database", "no schema like tenant_*")
}

func TestADaemonLogsOnceThatAQueryCannotRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prescient.yaml")
	if err := os.WriteFile(file, []byte("sql_jobs: [{name: late, query: select key from nowhere}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESCIENT_CONFIG", file)
	var log syncBuffer
	url, _ := serveLogging(t, &log, jobs.NewRegistry(), "daemon")
	eventually(t, url+"/readyz", "", "", `"ready":true`)
	if n := strings.Count(log.String(), `msg="a job cannot run: its rows will fail, others run" job=late`); n != 1 {
		t.Errorf("%d lines in\n%s", n, &log)
	}
}

func TestADaemonServesItsMetrics(t *testing.T) {
	url := serve(t, "daemon")
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(10 * time.Millisecond) {
		status, text := ask(t, http.MethodGet, url+"/metrics", "", "")
		if status == http.StatusOK && strings.Contains(text, "\nprescient_database_up 1\n") &&
			regexp.MustCompile(`(?m)^prescient_runs_total{kind="run",result="done"} [12]$`).MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d\n%s", status, text)
		}
	}
}

func TestADaemonServesPagesAndAPIWithTheTokensOfServe(t *testing.T) {
	const operator, reader = "0123456789abcdef", "fedcba9876543210"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", reader)
	url := serve(t, "daemon")
	eventually(t, url+"/api/v1/overview", reader, "", `"as_of"`, `"ok":true`)
	if status, text := ask(t, http.MethodGet, url+"/", "", ""); status != http.StatusOK || !strings.Contains(text, "<code>cmd.test daemon</code>") {
		t.Errorf("the log-in: %d %s", status, text)
	}
	const key = `{"entity_name": "order", "entity_key": "1"}`
	for token, want := range map[string]int{reader: http.StatusForbidden, operator: http.StatusOK} {
		if status, text := ask(t, http.MethodPost, url+"/api/v1/actions/cancel?preview=true", token, key); status != want {
			t.Errorf("an action: %d %s, want %d", status, text, want)
		}
	}
	if status, text := ask(t, http.MethodGet, url+"/api/v1/openapi.json", reader, ""); status != http.StatusOK || !strings.Contains(text, `"/schedule-changes"`) {
		t.Errorf("%d %.200s", status, text)
	}
}

func TestADaemonThatOtherMachinesReachHasNoPagesWithoutATokenAtAll(t *testing.T) {
	url := serve(t, "daemon", "--listen", ":0")
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://["), "]")
	url = "http://localhost" + port
	eventually(t, url+"/healthz", "", "problems", `{"ok":true}`)
	eventually(t, url+"/metrics", "", "", "\nprescient_database_up 1\n")
	for _, path := range []string{"/", "/api/v1/overview", schedules, "/login"} {
		if status, text := ask(t, http.MethodGet, url+path, "", ""); status != http.StatusNotFound || !strings.Contains(text, "server.token") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// withHeldJob returns a registry with the job held. Its only check closes begun, and then waits until
// release is called.
func withHeldJob() (registry *jobs.Registry, begun <-chan struct{}, release func()) {
	registry = jobs.NewRegistry()
	started, released := make(chan struct{}), make(chan struct{})
	registry.Register("held", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		close(started)
		<-released
		return nil, nil
	}))
	return registry, started, func() { close(released) }
}

// Otherwise a catch-up would get a grace period after that of the slots, and the supervisor would kill
// the process.
func TestADaemonThatStopsBeginsNoActionThatGoesOn(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, io.Discard
	if code := app.Run(t.Context(), []string{"slots", "set-width", "1s"}); code != Done {
		t.Fatalf("exit code %d", code)
	}
	db := sqlx.MustOpen("postgres", os.Getenv("PRESCIENT_DATABASE_URL"))
	t.Cleanup(func() { _ = db.Close() })
	registry, begun, release := withHeldJob()
	url, stop := serveWith(t, registry, "daemon")
	t.Cleanup(release)
	db.MustExec("select prescient.enqueue('held', 'order', '1', check_at => now())")
	<-begun
	stop()
	const body = `{"job_exec": "unknown"}`
	action, status := url+"/api/v1/actions/cancel-many", 0
	for end := time.Now().Add(await.Limit); status != http.StatusServiceUnavailable; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("an action that goes on begins while the daemon stops: %d", status)
		}
		db.MustExec("select prescient.enqueue('unknown', 'order', gen_random_uuid()::text, check_at => now() + interval '1 day')")
		_, plan := ask(t, http.MethodPost, action+"?preview=true", operator, body)
		_, rest, _ := strings.Cut(plan, `"confirm":"`)
		confirm, _, _ := strings.Cut(rest, `"`)
		status, _ = ask(t, http.MethodPost, action+"?confirm="+confirm, operator, body)
	}
}

func TestAServerThatIsStoppedWhileItConnectsEndsWell(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	db := sqlx.MustOpen("postgres", os.Getenv("PRESCIENT_DATABASE_URL"))
	t.Cleanup(func() { _ = db.Close() })
	locked := db.MustBegin()
	t.Cleanup(func() { _ = locked.Rollback() })
	locked.MustExec("lock prescient.setting")
	for _, args := range [][]string{{"daemon"}, {"daemon", "--listen", "127.0.0.1:0"}, {"serve", "--listen", "127.0.0.1:0"}} {
		var log syncBuffer
		app := New(jobs.NewRegistry())
		app.Out, app.Err = io.Discard, &log
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan Code, 1)
		go func() { ended <- app.Run(ctx, args) }()
		for end, waiting := time.Now().Add(20*time.Second), 0; waiting == 0; time.Sleep(10 * time.Millisecond) {
			if err := db.GetContext(t.Context(), &waiting, "select count(*) from pg_locks where not granted"); err != nil || time.Now().After(end) {
				t.Fatalf("it does not connect: %v", err)
			}
		}
		stop()
		if code := <-ended; code != Done {
			t.Errorf("%q: exit code %d\n%s", args, code, &log)
		}
	}
}

func TestADaemonServesEveryStoreUntilTheChecksOfAllHaveEnded(t *testing.T) {
	db := sqlx.MustOpen("postgres", writeStores(t))
	t.Cleanup(func() { _ = db.Close() })
	if err := pgsql.Migrate(t.Context(), db, "tenant_42"); err != nil {
		t.Fatal(err)
	}
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, io.Discard
	if code := app.Run(t.Context(), []string{"slots", "set-width", "1s", "--store", "shop"}); code != Done {
		t.Fatalf("exit code %d", code)
	}
	registry, begun, release := withHeldJob()
	var log syncBuffer
	url, stop := serveLogging(t, &log, registry, "daemon")
	t.Cleanup(release)
	const tenant = "/stores/tenants/tenant_42/"
	eventually(t, url+"/", "", "", `href="`+tenant+`"`)
	db.MustExec("select prescient.enqueue('held', 'order', '1', check_at => now())")
	<-begun
	stop()
	for end := time.Now().Add(await.Limit); !strings.Contains(log.String(), `msg="daemon has stopped" store=tenants/tenant_42`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the store without checks has not stopped\n%s", &log)
		}
	}
	for _, path := range []string{tenant, "/stores/shop/"} {
		if status, text := ask(t, http.MethodGet, url+path, "", ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func TestADaemonOfSeveralStoresEndsWithACheckThatIgnoresItsTimeout(t *testing.T) {
	db := sqlx.MustOpen("postgres", writeStores(t))
	t.Cleanup(func() { _ = db.Close() })
	t.Setenv("PRESCIENT_RUN_GRACE", "0s")
	registry, release := jobs.NewRegistry(), make(chan struct{})
	defer close(release)
	registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}), jobs.Timeout(10*time.Millisecond))
	var log syncBuffer
	app := New(registry)
	app.Out, app.Err = io.Discard, &log
	if code := app.Run(t.Context(), []string{"slots", "set-width", "1s", "--store", "shop"}); code != Done {
		t.Fatalf("exit code %d\n%s", code, &log)
	}
	db.MustExec("select prescient.enqueue('stuck', 'order', '1', check_at => now())")
	if code := app.Run(t.Context(), []string{"daemon"}); code != Failure {
		t.Errorf("exit code %d\n%s", code, &log)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "trying again") && strings.Contains(line, "store=shop") {
			t.Error(line)
		}
	}
}

func TestServeIsReadyWhenAStoreCanBeRead(t *testing.T) {
	url := serve(t, "serve")
	eventually(t, url+"/readyz", "", "", `"ready":true`)
	eventually(t, url+"/livez", "", "", `"alive":true`)
}

// asRunner makes the settings name a login that is a member of the schema's role of runners alone.
func asRunner(t *testing.T) {
	t.Helper()
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	const schema = "daemon_roles"
	address, err := url.Parse(pgtest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgsql.Open(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pgtest.DropRoles(t, db, schema+"_")
	if err := errors.Join(pgsql.Migrate(t.Context(), db, schema), pgsql.MakeRoles(t.Context(), db, schema)); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create role daemon_roles_login login password 'secret'; grant daemon_roles_runner to daemon_roles_login;
		select daemon_roles.ensure_job('order.unpaid')`)
	address.User = url.UserPassword("daemon_roles_login", "secret")
	t.Setenv("PRESCIENT_DATABASE_URL", address.String())
	t.Setenv("PRESCIENT_DATABASE_SCHEMA", schema)
}

func TestADaemonRefusesActionsThatItsRoleMayNotDo(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	asRunner(t)
	url := serve(t, "daemon")
	eventually(t, url+"/api/v1/overview", "", "", `"as_of"`)
	for _, path := range []string{"/", "/ledger", "/jobs", "/rules", "/schedules", "/events", "/alerts", "/actions", "/waiting", "/ended"} {
		if status, text := ask(t, http.MethodGet, url+path, "", ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	const pause = `{"job_exec": "order.unpaid"}`
	status, text := ask(t, http.MethodPost, url+"/api/v1/actions/pause-job?preview=true", operator, pause)
	if _, rest, found := strings.Cut(text, `"confirm":"`); found {
		confirm, _, _ := strings.Cut(rest, `"`)
		status, text = ask(t, http.MethodPost, url+"/api/v1/actions/pause-job?confirm="+confirm, operator, pause)
	}
	if status != http.StatusForbidden || !strings.Contains(text, "grant its login the role of operators") {
		t.Errorf("%d %s", status, text)
	}
}
