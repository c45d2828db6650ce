package pages

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// sessionFor bounds a log-in, and sessionIdle an unused one.
	sessionFor  = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	// maxSessions bounds the sessions. At the bound, the token with the most sessions loses the one
	// that was unused the longest.
	maxSessions = 1000
)

// session is one log-in.
type session struct {
	Visitor
	since, used time.Time // by monotonic
}

// sessions are kept in memory by the digests of their ids, so a restart ends them. They are safe
// for concurrent use.
type sessions struct {
	secure bool
	key    []byte // signs the tokens of forms
	now    func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
}

func newSessions(secure bool, now func() time.Time) *sessions {
	return &sessions{secure: secure, key: random(32), now: now, open: map[[sha256.Size]byte]*session{}}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// cookie returns the name of the cookie. With the prefix __Host-, browsers accept it only from this
// host, over TLS. Browsers send a cookie to every port of a host, so the name contains the port that
// the browser uses: a log-in at one of two servers on a host leaves that at the other.
func (s *sessions) cookie(r *http.Request) string {
	name := "prescient_session"
	if s.secure {
		name = "__Host-prescient"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		name += "_" + port
	}
	return name
}

// set gives the browser an id. An empty id removes it.
func (s *sessions) set(w http.ResponseWriter, r *http.Request, id string) {
	age := int(sessionFor / time.Second)
	if id == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie(r), Value: id, Path: "/", MaxAge: age, Secure: s.secure, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}

// id returns the id of the browser, or nothing.
func (s *sessions) id(r *http.Request) string {
	c, err := r.Cookie(s.cookie(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// begin logs a visitor in under a new id, so that an id which another site has planted in the
// browser is useless. An earlier log-in of the browser ends.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, v Visitor) {
	id := base64.RawURLEncoding.EncodeToString(random(32))
	s.set(w, r, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(s.id(r))))
	now := s.now()
	if len(s.open) >= maxSessions {
		s.evict()
	}
	s.open[sha256.Sum256([]byte(id))] = &session{Visitor: v, since: now, used: now}
}

// evict ends a session of the token with the most sessions, so that one token cannot log out
// visitors with another. Call it with mu held.
func (s *sessions) evict() {
	var tokens []int
	for _, open := range s.open {
		tokens = append(tokens, open.Token)
	}
	most, _ := mostOf(slices.Values(tokens))
	var oldest [sha256.Size]byte
	var used time.Time
	for id, open := range s.open {
		if open.Token == most && (used.IsZero() || open.used.Before(used)) {
			oldest, used = id, open.used
		}
	}
	delete(s.open, oldest)
}

// mostOf returns the token that is in a list most often, and the count of each.
func mostOf(tokens iter.Seq[int]) (most int, counts map[int]int) {
	counts = map[int]int{}
	for token := range tokens {
		counts[token]++
		if counts[token] > counts[most] {
			most = token
		}
	}
	return most, counts
}

// find returns the visitor of an id. If there is one, the call counts as use.
func (s *sessions) find(id string, use bool) (Visitor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := sha256.Sum256([]byte(id)), s.now()
	open := s.open[key]
	if open == nil {
		return Visitor{}, false
	}
	if now.Sub(open.since) > sessionFor || now.Sub(open.used) > sessionIdle {
		delete(s.open, key)
		return Visitor{}, false
	}
	if use {
		open.used = now
	}
	return open.Visitor, true
}

func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	delete(s.open, sha256.Sum256([]byte(s.id(r))))
	s.mu.Unlock()
	s.set(w, r, "")
}

// formToken returns the token that a form from a browser with this id must contain.
func (s *sessions) formToken(id string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (s *sessions) formTokenIs(id, token string) bool {
	return id != "" && hmac.Equal([]byte(s.formToken(id)), []byte(token))
}

// visitorKey is the context key of a request's visitor.
type visitorKey struct{}

func visitor(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}
