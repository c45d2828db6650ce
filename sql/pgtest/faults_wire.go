package pgtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// wire is the network connection of a driver's connection. So a test sees what the driver makes of
// a broken network.
type wire struct {
	net.Conn
	faults *Faults

	replies int                 // including the one that then changes
	then    func([]byte) []byte // returns the part of a reply that arrives; nil: replies arrive whole
	arrived []byte              // not read yet

	mu     sync.Mutex
	broken error // what reads return after the connection was cut
	reset  bool
}

// expect passes the n-th reply from now on through then.
func (w *wire) expect(n int, then func(reply []byte) []byte) { w.replies, w.then = n, then }

func (w *wire) Write(p []byte) (int, error) {
	w.faults.waitWhileStopped()
	switch broken, reset := w.isBroken(); {
	case broken == nil:
		n, err := w.Conn.Write(p)
		return n, w.explain(err)
	case reset:
		return len(p), nil // as on a network that has not noticed yet
	}
	return 0, &net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func (w *wire) Read(p []byte) (int, error) {
	for len(w.arrived) == 0 {
		if broken, _ := w.isBroken(); broken != nil {
			return 0, broken
		}
		if w.then == nil {
			n, err := w.Conn.Read(p)
			w.faults.waitWhileStopped()
			return n, w.explain(err)
		}
		reply, err := w.readReply()
		if err != nil {
			return 0, w.explain(err)
		}
		if w.replies--; w.replies == 0 {
			reply, w.then = w.then(reply), nil
		}
		w.arrived = reply
	}
	w.faults.waitWhileStopped()
	n := copy(p, w.arrived)
	w.arrived = w.arrived[n:]
	return n, nil
}

// SetDeadline is called while the connection is being opened. That code notices a cut itself.
func (w *wire) SetDeadline(at time.Time) error {
	if broken, _ := w.isBroken(); broken != nil {
		return nil
	}
	return w.Conn.SetDeadline(at)
}

func (w *wire) Close() error {
	w.faults.mu.Lock()
	delete(w.faults.wires, w)
	w.faults.mu.Unlock()
	return w.Conn.Close()
}

// cut ends the connection for both sides.
func (w *wire) cut(reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return
	}
	w.broken, w.reset = io.EOF, reset
	if reset {
		w.broken = &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	_ = w.Conn.Close()
}

func (w *wire) isBroken() (broken error, reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken, w.reset
}

// explain returns the error of a network, instead of the error that this side has closed the
// connection.
func (w *wire) explain(err error) error {
	if broken, _ := w.isBroken(); err != nil && broken != nil {
		return broken
	}
	return err
}

// The server's messages, by their first byte. Then comes their length, in four bytes that it
// includes.
const (
	commandComplete = 'C'
	readyForQuery   = 'Z'
)

// readReply reads all that the server sends until it is ready for the next message.
func (w *wire) readReply() ([]byte, error) {
	var reply []byte
	chunk := make([]byte, 4096)
	for at := 0; ; {
		for len(reply)-at >= 5 {
			end := at + 1 + int(binary.BigEndian.Uint32(reply[at+1:]))
			if len(reply) < end {
				break
			}
			if reply[at] == readyForQuery {
				return reply, nil
			}
			at = end
		}
		n, err := w.Conn.Read(chunk)
		if err != nil {
			return nil, err
		}
		reply = append(reply, chunk[:n]...)
	}
}

// tear returns a reply without its end, which says that the last statement is done.
func tear(reply []byte) []byte {
	last := 0
	for at := 0; at < len(reply); at += 1 + int(binary.BigEndian.Uint32(reply[at+1:])) {
		if reply[at] == commandComplete || reply[at] == readyForQuery && last == 0 {
			last = at
		}
	}
	return reply[:last]
}

// Dial makes Faults the driver's dialer, with DialTimeout and DialContext.
func (f *Faults) Dial(network, address string) (net.Conn, error) {
	return f.DialContext(context.Background(), network, address)
}

// DialTimeout is Dial with a timeout.
func (f *Faults) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return f.DialContext(ctx, network, address)
}

// wireKey is the context key of a *wire that DialContext sets.
type wireKey struct{}

// DialContext is Dial with a context.
func (f *Faults) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	f.waitWhileStopped()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, faults: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDead() || f.down {
		_ = conn.Close()
		return nil, refused
	}
	f.wires[w] = struct{}{}
	if made, ok := ctx.Value(wireKey{}).(**wire); ok {
		*made = w
	}
	return w, nil
}

var refused = &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
