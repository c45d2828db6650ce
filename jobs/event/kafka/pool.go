package kafka

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pool lends clients, each to one Publish at a time: a client fails all that waits for a partition
// when the context of the first one ends, and closing it is the one thing that ends every wait in
// it at once.
type pool struct {
	options []kgo.Opt
	slots   chan struct{} // one for each client that is lent

	mu     sync.Mutex
	idle   []*kgo.Client
	closed bool
}

// poolSize is how many calls of Publish are served at once.
const poolSize = 8

func newPool(options []kgo.Opt) *pool {
	return &pool{options: options, slots: make(chan struct{}, poolSize)}
}

func (p *pool) take(ctx context.Context) (*kgo.Client, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	client, err := p.idleOrNew()
	if err != nil {
		<-p.slots
	}
	return client, err
}

func (p *pool) idleOrNew() (*kgo.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the publisher is closed")
	}
	if last := len(p.idle) - 1; last >= 0 {
		client := p.idle[last]
		p.idle = p.idle[:last]
		return client, nil
	}
	return kgo.NewClient(p.options...)
}

// give takes back a client that was lent: it is closed if it was not fit to be used again.
func (p *pool) give(client *kgo.Client, fit bool) {
	defer func() { <-p.slots }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if fit && !p.closed {
		p.idle = append(p.idle, client)
		return
	}
	client.Close()
}

// close closes the idle clients. A client in use is closed when it comes back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, client := range p.idle {
		client.Close()
	}
	p.idle = nil
}
