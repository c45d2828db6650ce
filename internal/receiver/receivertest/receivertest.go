// Package receivertest has servers on the loopback that take messages, for tests: one for mail, one for HTTP.
package receivertest

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
)

// Mail is a mail that a Server has taken.
type Mail struct {
	To      []string // of the envelope
	Subject string
	Body    string
	// HTML is the part beside the body, if the mail has one.
	HTML string
}

// SMTP is a mail server without TLS.
type SMTP struct {
	// Addr is its host and port.
	Addr string
	// Refuse returns the answer to a recipient, such as "550 unknown". Empty: it is taken. Nil: all are.
	Refuse func(to string) string
	// Hang reports whether a command, or the dot after a mail, gets no answer. The connection then waits until the
	// client closes it. Nil: all get one.
	Hang func(command string) bool
	// Break reports whether the server closes the connection at a command, or at the dot, in place of an answer. Nil:
	// at none.
	Break func(command string) bool

	mu    sync.Mutex
	mails []Mail
}

// NewSMTP starts a mail server, which ends with the test.
func NewSMTP(t *testing.T) *SMTP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	s := &SMTP{Addr: listener.Addr().String()}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	return s
}

// Mails returns what it has taken, the oldest first.
func (s *SMTP) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail{}, s.mails...)
}

func (s *SMTP) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // of a test
	in := bufio.NewReader(conn)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format+"\r\n", args...) }
	say("220 test")
	var one Mail
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		if s.mute(line, in) {
			return
		}
		switch command := strings.ToUpper(line); {
		case strings.HasPrefix(command, "EHLO"):
			say("250-test\r\n250 8BITMIME")
		case strings.HasPrefix(command, "RCPT TO:"):
			to, _, _ := strings.Cut(strings.TrimPrefix(line[8:], "<"), ">")
			if s.Refuse != nil && s.Refuse(to) != "" {
				say("%s", s.Refuse(to))
				continue
			}
			one.To = append(one.To, to)
			say("250 ok")
		case command == "DATA":
			say("354 go on")
			one.read(in)
			if s.mute(".", in) {
				return
			}
			s.mu.Lock()
			s.mails = append(s.mails, one)
			s.mu.Unlock()
			one = Mail{}
			say("250 queued as 1")
		case command == "RSET":
			one = Mail{}
			say("250 ok")
		case command == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// mute reports whether a command gets no answer. If it hangs, mute waits until the client closes the connection.
func (s *SMTP) mute(command string, in io.Reader) bool {
	if s.Break != nil && s.Break(command) {
		return true
	}
	if s.Hang == nil || !s.Hang(command) {
		return false
	}
	_, _ = io.Copy(io.Discard, in)
	return true
}

// read reads what follows DATA.
func (m *Mail) read(in *bufio.Reader) {
	var text strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	read, err := mail.ReadMessage(strings.NewReader(text.String()))
	if err != nil {
		m.Body = err.Error()
		return
	}
	m.Subject, _ = new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	kind, params, _ := mime.ParseMediaType(read.Header.Get("Content-Type"))
	if kind != "multipart/alternative" {
		m.Body = decode(read.Header.Get("Content-Transfer-Encoding"), read.Body)
		return
	}
	parts := multipart.NewReader(read.Body, params["boundary"])
	for part, err := parts.NextRawPart(); err == nil; part, err = parts.NextRawPart() {
		text := decode(part.Header.Get("Content-Transfer-Encoding"), part)
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			m.HTML = text
		} else {
			m.Body = text
		}
	}
}

// decode returns a text as its sender had it.
func decode(encoding string, body io.Reader) string {
	if encoding == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	decoded, _ := io.ReadAll(body)
	return strings.ReplaceAll(strings.TrimSpace(string(decoded)), "\r\n", "\n")
}

// Web is a service by HTTP.
type Web struct {
	*httptest.Server

	mu   sync.Mutex
	got  []string
	says func(path, body string) (status int, answer string)
}

// NewWeb starts a service that answers as says does; nil: 200 and ok. It ends with the test.
func NewWeb(t *testing.T, says func(path, body string) (status int, answer string)) *Web {
	t.Helper()
	w := &Web{says: says}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// ServeHTTP takes a message.
func (w *Web) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	text, _ := io.ReadAll(in.Body)
	status, answer := http.StatusOK, "ok"
	if w.says != nil {
		status, answer = w.says(in.URL.RequestURI(), string(text))
	}
	if status < 300 {
		w.mu.Lock()
		line := in.URL.RequestURI() + " " + string(text)
		if authorization := in.Header.Get("Authorization"); authorization != "" {
			line = in.Method + " " + authorization + " " + line
		}
		w.got = append(w.got, line)
		w.mu.Unlock()
	}
	out.WriteHeader(status)
	_, _ = io.WriteString(out, answer)
}

// Got returns what it has taken: the path and the body of each request, the oldest first. A request with the header
// Authorization begins with its method and that header.
func (w *Web) Got() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.got...)
}

// Host returns its host and port.
func (w *Web) Host() string { return strings.TrimPrefix(w.URL, "http://") }
