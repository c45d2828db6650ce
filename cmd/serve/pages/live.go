package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	livePath = "/live"
	// liveEvery is the interval between two reads of the state while a stream is open.
	liveEvery = 2 * time.Second
	// maxStreams bounds the open streams. At the bound, a new stream replaces one of the token with
	// the most streams. It is refused if its own token has as many.
	maxStreams = 200
	// maxBehind is how many messages a stream may be behind before it is dropped. writeTimeout
	// bounds the sending of one.
	maxBehind    = 8
	writeTimeout = 10 * time.Second
)

// fragments are parts of a page as HTML, by their id in the page.
type fragments map[string]string

// hub reads the state once for all streams, and sends them the changes. Without streams it does
// nothing. It is safe for concurrent use.
type hub struct {
	render func(ctx context.Context) fragments

	mu      sync.Mutex
	streams map[chan fragments]int // the token of each
	last    fragments
	stop    context.CancelFunc // nil: no stream is open
	closed  bool
}

func newHub(render func(ctx context.Context) fragments) *hub {
	return &hub{render: render, streams: map[chan fragments]int{}}
}

// subscribe opens a stream of a token and returns its messages, or nil if there are too many
// streams. The hub closes the channel if the stream is too slow, gives way to another token, or the
// hub closes.
func (h *hub) subscribe(token int) chan fragments {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= maxStreams && !h.evict(token) {
		return nil
	}
	c := make(chan fragments, maxBehind)
	h.streams[c] = token
	if h.stop == nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		go h.loop(ctx)
	} else if h.last != nil {
		c <- h.last
	}
	return c
}

// evict ends a stream of the token with the most streams. It returns false if the given token has
// as many. Call it with mu held.
func (h *hub) evict(token int) bool {
	most, counts := mostOf(maps.Values(h.streams))
	if counts[most] <= counts[token]+1 {
		return false
	}
	for c, of := range h.streams {
		if of == most {
			h.drop(c)
			return true
		}
	}
	return false
}

func (h *hub) unsubscribe(c chan fragments) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, is := h.streams[c]; is {
		h.drop(c)
	}
}

// drop ends a stream. After the last one, the hub stops reading.
func (h *hub) drop(c chan fragments) {
	delete(h.streams, c)
	close(c)
	if len(h.streams) == 0 {
		h.stop()
		h.stop, h.last = nil, nil
	}
}

// close ends all streams permanently.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.streams {
		h.drop(c)
	}
}

func (h *hub) loop(ctx context.Context) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		h.broadcast(ctx, h.render(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// broadcast sends every stream the changes since its last message.
func (h *hub) broadcast(ctx context.Context, now fragments) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil { // another loop may have begun
		return
	}
	changed := fragments{}
	for id, html := range now {
		if h.last[id] != html {
			changed[id] = html
		}
	}
	h.last = now
	for c := range h.streams {
		select {
		case c <- changed:
		default:
			h.drop(c)
		}
	}
}

// serve sends changed parts of pages as server-sent events, while the visitor may read.
func (h *hub) serve(w http.ResponseWriter, r *http.Request, mayRead func(r *http.Request) bool) {
	told := h.subscribe(visitor(r.Context()).Token)
	if told == nil {
		http.Error(w, "too many watch at once, or the server is being stopped\n", http.StatusServiceUnavailable)
		return
	}
	defer h.unsubscribe(told)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer the events
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a deadline would end the stream
	for {
		select {
		case <-r.Context().Done():
			return
		case changed, open := <-told:
			if !open || !mayRead(r) {
				return
			}
			text, _ := json.Marshal(changed) // strings never fail
			_ = control.SetWriteDeadline(monotonic().Add(writeTimeout))
			if _, err := fmt.Fprintf(w, "event: swap\ndata: %s\n\n", text); err != nil || control.Flush() != nil {
				return
			}
		}
	}
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
