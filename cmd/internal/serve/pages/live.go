package pages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

const (
	livePath = "/live"
	// liveFor is how long open pages share what was rendered, and how often they ask for it; see app.js.
	liveFor = 2 * time.Second
	// liveTimeout bounds the reading of the state for open pages.
	liveTimeout = 8 * time.Second
)

// isLive reports whether an open page asks for what has changed, also that of a store that is down or that the visitor
// may not see.
func isLive(r *http.Request) bool {
	store, is := strings.CutPrefix(r.URL.Path, StorePath(""))
	return r.URL.Path == livePath || is && strings.HasSuffix(store, livePath)
}

// fragments are parts of a page as HTML, by their id in the page.
type fragments map[string]string

// live answers open pages with the parts that change. It renders them once for all of them. It is
// safe for concurrent use.
type live struct {
	render func(ctx context.Context) fragments

	mu   sync.Mutex
	at   time.Time // local monotonic instant
	text []byte
	tag  string
}

// lives answers open pages by the range of their chart.
type lives map[string]*live

func newLives(render func(ctx context.Context, of string) fragments) lives {
	l := lives{}
	for _, name := range periodNames() {
		l[name] = &live{render: func(ctx context.Context) fragments { return render(ctx, name) }}
	}
	return l
}

func (l lives) serve(w http.ResponseWriter, r *http.Request) {
	of := l[r.URL.Query().Get("range")]
	if of == nil {
		of = l[usual]
	}
	of.serve(w, r)
}

// serve sends the parts as JSON, or 304 if they are those that the page has.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	text, tag := l.current(r.Context())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // an error means that the client has gone
}

// current returns the parts as JSON, with their ETag. It renders them if they are too old.
func (l *live) current(ctx context.Context) (text []byte, tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == nil || time.Since(l.at) >= liveFor {
		// for other pages, too, so it goes on if this one leaves
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer cancel()
		l.text, _ = json.Marshal(l.render(ctx)) // strings never fail
		sum := sha256.Sum256(l.text)
		l.tag, l.at = `"`+hex.EncodeToString(sum[:8])+`"`, elapsed.Now()
	}
	return l.text, l.tag
}

// part is a template of a page, and its data.
type part struct {
	template string
	data     any
}

// parts renders parts of a page, by their id in it.
func (s *site) parts(ctx context.Context, page string, list map[string]part) fragments {
	found := fragments{}
	for id, part := range list {
		html, err := s.render(page, part.template, part.data)
		if err != nil {
			s.cfg.Logger.ErrorContext(ctx, "a part of a page cannot be shown", "part", part.template, "error", err)
			continue
		}
		found[id] = html
	}
	return found
}
