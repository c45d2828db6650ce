package runcmd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
)

const (
	// startTimeout and endTimeout bound a ping with its retries, so that a service that is down
	// does not delay a run for long.
	startTimeout, endTimeout = 3 * time.Second, 10 * time.Second
)

// pinger reports commands to a service that watches for silence, by the conventions of
// healthchecks.io. It sends a POST to the URL below /start when a command begins, and to the URL
// itself when it ended well. It sends one below /fail, with the end of the log, when the command
// failed.
type pinger struct {
	f    *factory.Factory
	to   *url.URL
	http *egress.Client

	mu       sync.Mutex
	begun    time.Time       // the newest slot of the daemon that has begun
	starting chan struct{}   // closed when the last /start has gone
	done     bool            // a slot is done, and the service was not told
	failing  map[string]bool // stores that cannot be used, or whose last slot has failed
}

// pinged calls fn, between two pings if run.ping_url is set. A ping that does not arrive is a
// warning.
func pinged(ctx context.Context, f *factory.Factory, fn func() error) error {
	p, err := newPinger(f)
	if err != nil {
		return err
	}
	p.send(ctx, "start", "")
	err = fn()
	p.end(ctx, err)
	return err
}

// newPinger returns nil if run.ping_url is not set.
func newPinger(f *factory.Factory) (*pinger, error) {
	text := f.Config().Run.PingURL.Reveal()
	if text == "" {
		return nil, nil
	}
	to, err := url.Parse(text) // config has checked it
	if err != nil {
		return nil, errors.New("run.ping_url is no URL")
	}
	// The operator chose it, like the database, so any address is allowed.
	anywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	client, err := egress.New(egress.Config{Allow: anywhere, Timeout: startTimeout, MaxAttempts: 3})
	if err != nil {
		return nil, fmt.Errorf("ping: %w", err)
	}
	p := &pinger{f: f, to: to, http: client, starting: make(chan struct{}), failing: map[string]bool{}}
	close(p.starting)
	return p, nil
}

// end reports the end of a command, or of a slot of the daemon.
func (p *pinger) end(ctx context.Context, err error) {
	if err == nil {
		p.send(ctx, "", "")
	} else if p != nil {
		p.send(ctx, "fail", p.f.Tail()+spoken.Error(err.Error())+"\n")
	}
}

// begins is called by daemon.Config.BeforeRun. It does not block the run: while the service is slow to
// accept one start, begins skips other starts.
func (p *pinger) begins(ctx context.Context, slot time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.starting:
	default:
		return
	}
	if !slot.After(p.begun) {
		return // a retry follows
	}
	started := make(chan struct{})
	p.begun, p.starting = slot, started
	go func() {
		defer close(started)
		p.send(ctx, "start", "")
	}()
}

// ran is called by daemon.Config.AfterRun. A slot that is left open to other runners is no news. While a store
// fails, ran reports no success, but afterwards.
func (p *pinger) ran(ctx context.Context, store string, result slots.Result, err error) {
	if p == nil || errors.Is(err, slots.ErrStopped) {
		return
	}
	p.mu.Lock()
	switch {
	case err != nil:
		p.failing[store] = true
	case result.State == slots.StateDone:
		p.done = true
		delete(p.failing, store)
	}
	starting, success := p.starting, p.done && len(p.failing) == 0
	if success {
		p.done = false
	}
	p.mu.Unlock()
	if err == nil && !success {
		return
	}
	<-starting // so that they arrive in order
	p.end(ctx, err)
}

// fails notes that a store cannot be used.
func (p *pinger) fails(store string) { p.note(store, true) }

// works notes that a store can be used, or is gone.
func (p *pinger) works(store string) { p.note(store, false) }

func (p *pinger) note(store string, fails bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.failing, store); fails {
		p.failing[store] = true
	}
}

func (p *pinger) send(ctx context.Context, what, body string) {
	if p == nil {
		return
	}
	limit := startTimeout
	if what != "start" {
		ctx, limit = context.WithoutCancel(ctx), endTimeout // also of one that was stopped
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to := p.to
	if what != "" {
		to = to.JoinPath(what)
	}
	_, err := p.http.Post(ctx, to, egress.Message{ID: what, ContentType: "text/plain; charset=utf-8", Body: []byte(body)})
	if answer, ok := errors.AsType[*egress.StatusError](err); ok {
		err = fmt.Errorf("it answers %d", answer.Status) // its text may quote the URL
	}
	if err != nil {
		p.f.Log().WarnContext(ctx, "the ping of run.ping_url did not arrive", "what", what, "error", err)
	}
}
