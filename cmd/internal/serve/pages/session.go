package pages

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jellydator/ttlcache/v3"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/web"
)

const (
	// sessionFor bounds a log-in, and sessionIdle an unused one.
	sessionFor  = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	// maxSessions bounds the sessions of each token, so that one token cannot log out visitors with
	// another. At the bound, the session that was unused the longest ends.
	maxSessions = 1000
)

// session is one log-in.
type session struct {
	web.Who
	since time.Time // local monotonic instant
}

// sessions are kept in memory by the digests of their ids, so a restart ends them. They are safe
// for concurrent use.
type sessions struct {
	secure bool
	key    []byte // signs the tokens of forms

	mu   sync.Mutex
	open map[int]*ttlcache.Cache[digest, session] // by token
}

// digest is that of the id of a session.
type digest = [sha256.Size]byte

func newSessions(secure bool) *sessions {
	return &sessions{secure: secure, key: random(32), open: map[int]*ttlcache.Cache[digest, session]{}}
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
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, who web.Who) {
	id := base64.RawURLEncoding.EncodeToString(random(32))
	s.set(w, r, id)
	s.delete(s.id(r))
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.open[who.Token]
	if own == nil {
		own = ttlcache.New(ttlcache.WithTTL[digest, session](sessionIdle),
			ttlcache.WithCapacity[digest, session](maxSessions))
		s.open[who.Token] = own
	}
	own.DeleteExpired()
	own.Set(sha256.Sum256([]byte(id)), session{who, elapsed.Now()}, ttlcache.DefaultTTL)
}

// find returns the visitor of an id. If there is one, the call counts as use.
func (s *sessions) find(id string, use bool) (web.Who, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var options []ttlcache.Option[digest, session]
	if !use {
		options = append(options, ttlcache.WithDisableTouchOnHit[digest, session]())
	}
	for _, own := range s.open {
		open := own.Get(sha256.Sum256([]byte(id)), options...)
		if open != nil && time.Since(open.Value().since) <= sessionFor {
			return open.Value().Who, true
		}
	}
	return web.Who{}, false
}

func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	s.delete(s.id(r))
	s.set(w, r, "")
}

func (s *sessions) delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.open {
		own.Delete(sha256.Sum256([]byte(id)))
	}
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

func visitor(ctx context.Context) web.Who {
	who, _ := ctx.Value(visitorKey{}).(web.Who)
	return who
}
