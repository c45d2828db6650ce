package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The variables that make the test binary forward the messages of a database to a service.
const (
	forwardFrom = "PRESCIENT_TEST_FORWARD_DATABASE"
	forwardTo   = "PRESCIENT_TEST_FORWARD_ADDRESS"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(forwardFrom); url != "" {
		if err := forwardAll(context.Background(), url, os.Getenv(forwardTo)); err != nil {
			slog.Error("forward", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// consumer returns the configuration of a forwarder to a service.
func consumer(db pgsql.Pool, publisher event.Publisher) forward.Config {
	return forward.Config{DB: db, Logger: slog.New(slog.DiscardHandler), Destinations: []forward.Destination{{
		Name: message.Consumer("ops"), Address: "test:", Types: []string{message.Type("ops")}, Publisher: publisher,
		SendAt: receiver.SendAt, Keep: true,
	}}}
}

func forwardAll(ctx context.Context, url, address string) error {
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		return err
	}
	r, err := receiver.Open(address, loopback)
	if err != nil {
		return err
	}
	publisher := receiver.NewPublisher(receiver.PublisherConfig{Receiver: r, PerMinute: 1_000_000})
	f, err := forward.Start(ctx, consumer(db, publisher))
	if err != nil {
		return err
	}
	return f.Finish()[0].Err
}

// service takes messages. The sender of some requests is killed: they get no answer, and are told to hung.
type service struct {
	hangs map[int]bool // the requests, from 1
	hung  chan struct{}

	mu   sync.Mutex
	n    int
	last map[string]int // of each subject: the number of the newest message
	errs []string
}

func (s *service) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var body struct{ Message string }
	if json.Unmarshal(text, &body) != nil {
		return
	}
	if s.arrived(body.Message) {
		s.hung <- struct{}{}
		<-r.Context().Done() // the sender is dead
	}
}

// arrived notes a message such as "b 7", and reports whether its request hangs.
func (s *service) arrived(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	var subject string
	var number int
	if _, err := fmt.Sscan(text, &subject, &number); err != nil || number > s.last[subject]+1 {
		s.errs = append(s.errs, fmt.Sprintf("%q after %d", text, s.last[subject]))
	}
	s.last[subject] = max(s.last[subject], number)
	return s.hangs[s.n]
}

func TestAKilledForwarderLosesNoMessageAndKeepsTheOrderOfSubjects(t *testing.T) {
	t.Parallel()
	const each = 40
	url := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := forward.Name(t.Context(), consumer(db, nil)); err != nil {
		t.Fatal(err)
	}
	var list []event.Event
	for n := range each * 5 {
		subject := string(rune('a' + n%5))
		data, _ := json.Marshal(message.Message{Text: fmt.Sprint(subject, " ", 1+n/5)})
		list = append(list, event.Event{ID: fmt.Sprint(n), Source: "test", Type: message.Type("ops"), Subject: subject, Data: data})
	}
	if err := outbox.New(db, "").Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	s := &service{hangs: map[int]bool{1: true, 9: true, 150: true, 350: true}, hung: make(chan struct{}), last: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	kills := 0
	await.True(t, "all messages to be recorded", func() bool {
		// What a killed process holds ends with its lease. Here it ends at once.
		db.MustExec("update prescient.event_consumer set allocated_until = statement_timestamp() - interval '1 second'")
		if sendUntilHung(t, s, url, "ntfy+http://"+strings.TrimPrefix(server.URL, "http://")+"/t") {
			kills++
			return false
		}
		var left int
		if err := db.Get(&left, `select count(*) from prescient.event_consumer c
			join prescient.event_outbox o on (o.mark, o.position) > (c.mark, c.position)`); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if kills != len(s.hangs) || len(s.errs) > 0 {
		t.Errorf("%d kills, out of order: %v", kills, s.errs)
	}
	for _, subject := range "abcde" {
		if got := s.last[string(subject)]; got != each {
			t.Errorf("subject %c: %d messages, want %d", subject, got, each)
		}
	}
	var kept int
	if err := db.Get(&kept, "select count(*) from prescient.event_sent"); err != nil || kept != len(list) {
		t.Errorf("%d messages are recorded as sent, want %d: %v", kept, len(list), err)
	}
}

// sendUntilHung runs a process that forwards, and kills it when a request hangs. It reports whether it has killed it.
func sendUntilHung(t *testing.T, s *service, from, to string) (killed bool) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), forwardFrom+"="+from, forwardTo+"="+to)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("forward: %v", err)
		}
		return false
	case <-s.hung:
		if err := process.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("a process that was killed ended well")
		}
		return true
	}
}
