package slots_test

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// network is a runner's way to the database, which a test can watch and disturb.
type network struct {
	t        testing.TB
	url      url.URL // of the database, through the network
	listener net.Listener
	server   func() (net.Conn, error)
	latency  time.Duration // of each message and of each answer

	received atomic.Int64 // bytes of the server
	silent   sync.RWMutex // held for writing nothing gets through, and neither side notices
	away     sync.Mutex   // held while no new connection is made

	mu       sync.Mutex
	links    []link
	messages int64 // sent to the server
	at       int64 // number of the message before which disturb is called
	disturb  func(link)
}

// link is one connection through a network.
type link struct{ runner, server net.Conn }

func (l link) cut() {
	_ = l.runner.Close()
	_ = l.server.Close()
}

// network makes a way to the test's database.
func (w *world) network() *network {
	w.t.Helper()
	to, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &network{t: w.t, url: *to}
	query := to.Query()
	n.server = func() (net.Conn, error) { return net.Dial("tcp", to.Host) }
	if dir := query.Get("host"); strings.HasPrefix(dir, "/") {
		socket := filepath.Join(dir, ".s.PGSQL."+query.Get("port"))
		n.server = func() (net.Conn, error) { return net.Dial("unix", socket) }
		query.Del("host")
		query.Del("port")
	}
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		w.t.Fatal(err)
	}
	n.url.Host, n.url.RawQuery = n.listener.Addr().String(), query.Encode()
	go n.accept()
	w.t.Cleanup(n.close)
	return n
}

// open returns a pool whose connections go through the network.
func (n *network) open(options ...pgsql.Option) *sqlx.DB {
	n.t.Helper()
	return open(n.t, n.url.String(), options...)
}

// open returns a pool of the test's own.
func open(t testing.TB, url string, options ...pgsql.Option) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// before calls do right before the message that is so many from now gets through, which waits for it.
func (n *network) before(message int64, do func(link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at, n.disturb = n.messages+message, do
}

// undisturbed takes back what before was told.
func (n *network) undisturbed() { n.before(0, nil) }

// sent tells how many messages the runners have sent.
func (n *network) sent() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.messages
}

// silence lets nothing through until the end of the test, in neither direction.
func (n *network) silence() {
	n.silent.Lock()
	n.t.Cleanup(n.silent.Unlock)
}

func (n *network) accept() {
	for {
		runner, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.away.Lock()
		server, err := n.server()
		n.away.Unlock()
		if err != nil {
			_ = runner.Close()
			continue
		}
		l := link{runner, server}
		n.mu.Lock()
		n.links = append(n.links, l)
		n.mu.Unlock()
		go n.pass(l, server, runner, func() { n.count(l) })
		go n.pass(l, runner, server, func() {})
	}
}

// pass passes on what comes from one end of a link to the other.
func (n *network) pass(l link, to, from net.Conn, notice func()) {
	defer l.cut()
	buffer := make([]byte, 64<<10)
	for {
		size, err := from.Read(buffer)
		if err == nil {
			notice()
			time.Sleep(n.latency)
		}
		if to == l.runner {
			n.received.Add(int64(size))
		}
		n.silent.RLock() // an end, too, is nothing that the other side learns of
		if err == nil {
			_, err = to.Write(buffer[:size])
		}
		n.silent.RUnlock()
		if err != nil {
			return
		}
	}
}

func (n *network) count(l link) {
	n.mu.Lock()
	n.messages++
	due := n.messages == n.at
	disturb := n.disturb
	n.mu.Unlock()
	if due {
		disturb(l)
	}
}

func (n *network) close() {
	_ = n.listener.Close()
	n.cutBut(link{})
}

// cutBut cuts every connection but one.
func (n *network) cutBut(spared link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		if l != spared {
			l.cut()
		}
	}
}
