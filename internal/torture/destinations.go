package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The kinds of faults of the destinations.
const (
	refusesEvents = "a destination refuses"
	hangs         = "a destination hangs"
	dies          = "a destination dies"
)

// destination is a server that events are sent to: the webhook, which gets them as CloudEvents, or the receiver of
// messages. It keeps what it has accepted, in order.
type destination struct {
	name   string
	server *http.Server
	url    string

	mu       sync.Mutex
	fault    string        // the kind; empty: it answers
	healed   chan struct{} // closed when the fault ends
	conns    map[net.Conn]struct{}
	requests int
	refusals int
	refused  map[string]bool // ids, while it refuses
	accepted []accepted
	troubles []span // when it had a fault
}

// accepted is an event or a message. The id and the text of a message are those of the first one, if it tells several.
type accepted struct{ id, text string }

// span is a time; to is zero until it has ended.
type span struct{ from, to time.Time }

func newDestination(ctx context.Context, name string) (*destination, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &destination{name: name, url: "http://" + l.Addr().String() + "/" + name, conns: map[net.Conn]struct{}{}}
	d.server = &http.Server{Handler: d, ConnState: d.connection, ReadHeaderTimeout: time.Minute}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

// connection follows the connections. A dead destination has none.
func (d *destination) connection(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateNew:
		if d.conns[c] = struct{}{}; d.fault == dies {
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(d.conns, c)
	}
}

// set begins a fault, which replaces another one; empty: it ends the fault.
func (d *destination) set(fault string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.fault != "" {
		d.troubles[len(d.troubles)-1].to = now
		close(d.healed)
	}
	d.refused = map[string]bool{}
	if d.fault = fault; fault == "" {
		return
	}
	d.healed = make(chan struct{})
	d.troubles = append(d.troubles, span{from: now})
	if fault == dies { // in the middle of its answers
		for c := range d.conns {
			_ = c.Close()
		}
	}
}

// suffers has a fault for a while.
func (d *destination) suffers(ctx context.Context, fault string, most time.Duration) {
	d.set(fault)
	wait(ctx, most)
	d.set("")
}

// ServeHTTP answers a request, unless a fault says otherwise. Half of those that hang were accepted before.
func (d *destination) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a struct{ ID, Text string }
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &a) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	status, healed := d.answer(accepted{a.ID, a.Text})
	if status == 0 {
		select {
		case <-healed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler) // no answer
	}
	w.WriteHeader(status)
}

// answer decides about a request, and returns the status; 0: there is no answer until the fault ends.
func (d *destination) answer(a accepted) (status int, healed chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests++
	status = http.StatusOK
	switch {
	case d.fault == hangs:
		status = 0
	case d.fault == refusesEvents && (d.refused[a.id] || d.requests%3 == 0):
		status, d.refused[a.id] = http.StatusUnprocessableEntity, true // this event, each time
	case d.fault == refusesEvents && d.requests%3 == 1:
		status = http.StatusServiceUnavailable // all events
	}
	if status == http.StatusUnprocessableEntity {
		d.refusals++
	}
	if status == http.StatusOK || status == 0 && d.requests%2 == 0 {
		d.accepted = append(d.accepted, a)
	}
	return status, d.healed
}

// startDestinations starts the webhook and the receiver, writes the settings that name them, and makes them known to
// the outbox.
func (t *torture) startDestinations(ctx context.Context) (err error) {
	for _, name := range []string{webhook, ops} {
		d, err := newDestination(ctx, name)
		if err != nil {
			return err
		}
		t.destinations = append(t.destinations, d)
	}
	t.config = filepath.Join(t.dir, "destinations.yaml")
	text := fmt.Sprintf(eventSettings, t.destinations[0].url, t.destinations[1].url)
	if err := os.WriteFile(t.config, []byte(text), 0o600); err != nil {
		return err
	}
	return t.prescient(ctx, "events", "forward")
}

// webhook and ops are the names of the destinations.
const webhook, ops = "webhook", "ops"

// eventSettings let the receiver get few messages alone: the others are told together.
const eventSettings = `events:
  allowed_networks: [127.0.0.0/8]
  destinations:
    webhook: {url: "%s"}
receivers:
  ops: {url: "%s", per_minute: 10}
`

// trouble gives all destinations a fault; empty: it ends their faults.
func (t *torture) trouble(fault string) {
	for _, d := range t.destinations {
		d.set(fault)
	}
}

// forwardAll forwards until no event waits, and notes it if some do in the end. A refused event waits for its pause.
func (t *torture) forwardAll(ctx context.Context) error {
	if len(t.destinations) == 0 {
		return nil
	}
	began := time.Now()
	for {
		said := t.prescient(ctx, "events", "forward") // fails if an event is refused
		var left int
		err := t.admin.GetContext(ctx, &left, `
			select (select count(*) from prescient.event_dead)
				+ (select count(*) from prescient.event_consumer c
					where exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position)))`)
		switch {
		case err == nil && left == 0:
			t.count("destinations had all events after (ms)", int(time.Since(began).Milliseconds()))
			return nil
		case time.Since(began) > 5*time.Minute:
			t.broken("events wait %s after the last fault of a destination: %v", time.Since(began).Round(time.Second), said)
			return err
		}
		if wait(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
}

// stopDestinations closes the servers.
func (t *torture) stopDestinations() {
	for _, d := range t.destinations {
		d.set("")
		_ = d.server.Close()
	}
}

// troubled reports whether a destination had a fault at an instant.
func (t *torture) troubled(at time.Time) bool {
	return slices.ContainsFunc(t.destinations, func(d *destination) bool {
		return slices.ContainsFunc(d.troubles, func(s span) bool {
			return !at.Before(s.from) && (s.to.IsZero() || at.Before(s.to))
		})
	})
}
