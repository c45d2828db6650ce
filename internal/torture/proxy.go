package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

// points are the statements at which a fault may strike, by a part of their text.
var points = map[string]string{
	"open":      "open_slot(",
	"claim":     "claim_rows(",
	"read":      "from prescient.future_job\nwhere next_check_at",
	"begin":     "begin_check(",
	"record":    "future_job_history",
	"recordOne": "record_row(",
	"move":      "move_rows",
	"fence":     "fence(",
	"renew":     "update prescient.slot_claim",
	"take_over": "take_over(",
	"close":     "close_slot(",
	"hold":      "update prescient.event_consumer c\nset token",
	"forwarded": "update prescient.event_consumer c\nset mark",
	"commit":    "commit",
}

// strike says what a fault does at a point.
type strike string

const (
	killBefore strike = "kill before" // the server never sees the statement
	killAfter  strike = "kill after"  // the server has it, the process never sees the reply
	loseReply  strike = "lose reply"  // the same, and the process lives
)

// proxy stands between one process, or the mutator, and the database.
type proxy struct {
	listener net.Listener
	socket   string // of the server

	arming sync.Mutex // held while a fault is armed

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	delay  time.Duration // of each piece, both ways
	slow   bool          // a piece is sent in small parts
	mute   [2]bool       // nothing goes on, to and from the server
	armed  string        // the point at which strike happens; empty: none
	strike strike
	struck func() // told when it has happened
	kill   func() // kills the process
}

func newProxy(ctx context.Context, socket string) (*proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, socket: socket, conns: map[net.Conn]struct{}{}}
	go p.accept()
	return p, nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).Dial("unix", p.socket)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client] = struct{}{}
	p.mu.Unlock()
	lost := make(chan struct{}) // closed: the replies from here on are lost
	lose := sync.OnceFunc(func() { close(lost) })
	end := func() {
		_ = client.Close()
		_ = server.Close()
		p.mu.Lock()
		delete(p.conns, client)
		p.mu.Unlock()
	}
	go func() {
		p.pass(server, client, 0, func(piece []byte) bool { return p.meets(piece, lose) })
		end()
	}()
	p.pass(client, server, 1, func([]byte) bool {
		select {
		case <-lost:
			return false
		default:
			return true
		}
	})
	end()
}

// pass sends on what arrives, until one side ends or allow says no.
func (p *proxy) pass(to, from net.Conn, way int, allow func(piece []byte) bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !allow(buffer[:n]) {
				reset(to)
				return
			}
			if !p.hold(way) || !p.send(to, buffer[:n]) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits for as long as a way is mute or slow.
func (p *proxy) hold(way int) bool {
	for {
		p.mu.Lock()
		mute, delay := p.mute[way], p.delay
		p.mu.Unlock()
		if !mute {
			time.Sleep(delay)
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *proxy) send(to net.Conn, piece []byte) bool {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	for slow && len(piece) > 100 {
		if _, err := to.Write(piece[:100]); err != nil {
			return false
		}
		piece = piece[100:]
		time.Sleep(2 * time.Millisecond)
	}
	_, err := to.Write(piece)
	return err == nil
}

// meets has the armed fault strike if the piece has its statement, and reports whether the piece goes on.
func (p *proxy) meets(piece []byte, lose func()) bool {
	p.mu.Lock()
	if p.armed == "" || !bytes.Contains(bytes.ToLower(piece), []byte(p.armed)) {
		p.mu.Unlock()
		return true
	}
	what, struck, kill := p.strike, p.struck, p.kill
	p.armed = ""
	p.mu.Unlock()
	defer struck()
	switch what {
	case killBefore:
		kill()
		return false
	case killAfter:
		lose()
		time.AfterFunc(5*time.Millisecond, kill) // the server has it by then, or soon
	case loseReply:
		lose()
	}
	return true
}

// arm has a fault strike at the next statement of a point. It reports whether it did so in time.
func (p *proxy) arm(ctx context.Context, point string, what strike, kill func(), most time.Duration) bool {
	if !p.arming.TryLock() {
		return false
	}
	defer p.arming.Unlock()
	done := make(chan struct{})
	p.mu.Lock()
	p.armed, p.strike, p.kill = points[point], what, kill
	p.struck = sync.OnceFunc(func() { close(done) })
	p.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-time.After(most):
	}
	p.mu.Lock()
	p.armed = ""
	p.mu.Unlock()
	return false
}

// set changes how the proxy treats what passes.
func (p *proxy) set(change func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// cut ends the connections, with a reset or in good order. It returns their number.
func (p *proxy) cut(hard bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if hard {
			reset(c)
		}
		_ = c.Close()
	}
	return len(p.conns)
}

func (p *proxy) heal() {
	p.set(func(p *proxy) { p.delay, p.slow, p.mute, p.armed = 0, false, [2]bool{}, "" })
}

// url is where a process reaches the database through the proxy.
func (p *proxy) url(role, name string) string {
	port := p.listener.Addr().(*net.TCPAddr).Port
	return "postgres://" + role + "@127.0.0.1:" + strconv.Itoa(port) + "/" + databaseName +
		"?sslmode=disable&connect_timeout=5&application_name=" + name
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
