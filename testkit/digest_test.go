package testkit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/testkit"
)

// people is a receiver that keeps the subjects of its messages.
type people struct {
	mu  sync.Mutex
	got []string
}

func (p *people) Publish(_ context.Context, events []event.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		p.got = append(p.got, e.Subject)
	}
	return nil
}

func (p *people) Close() error { return nil }

func (p *people) received() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// A remove forgets what has fired. The message of what fires again is another one, although the first was sent.
func TestAMessageOfADigestIsSentAgainAfterItsRuleWasRemovedAndApplied(t *testing.T) {
	t.Parallel()
	var kit *testkit.Kit
	registry := jobs.NewRegistry()
	err := rule.Register(registry, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) { return kit.DB, nil }, Publisher: outbox.New(nil, ""), Source: "/test",
	})
	if err != nil {
		t.Fatal(err)
	}
	kit = testkit.New(t, testkit.Config{Registry: registry})
	to := &people{}
	cfg := forward.Config{DB: kit.DB, Destinations: []forward.Destination{{
		Name: "receiver:ops", Address: "test:", Types: []string{message.Type("ops")}, Keep: true, About: receiver.About, Publisher: to,
		// The clock of the kit is far ahead.
		SendAt: func(e event.Event) time.Time { return receiver.SendAt(e).AddDate(-100, 0, 0) },
	}}}
	if err := forward.Name(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	// receive waits until the receiver has got n messages.
	receive := func(n int) {
		t.Helper()
		await.True(t, "the messages", func() bool {
			f, err := forward.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			f.Finish()
			var left int
			if err := kit.DB.Get(&left, `select (select count(*) from prescient.event_consumer c
				join prescient.event_outbox o on (o.mark, o.position) > (c.mark, c.position)) + (select count(*) from prescient.event_dead)`); err != nil {
				t.Fatal(err)
			}
			return left == 0
		})
		if diff := cmp.Diff(slices.Repeat([]string{"cases/1"}, n), to.received()); diff != "" {
			t.Errorf("messages: %s", diff)
		}
	}

	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	file := rulesFile(t, `rules: [{name: r, table: public.cases, key: id, since: opened_at, done: closed_at, overdue: last,
		recovered: {notify: ops, digest: slot}, steps: [{after: 4h, notify: ops, digest: slot}]}]`)
	store, err := rulestore.New(t.Context(), kit.DB, rulestore.Config{Now: kit.Now})
	if err != nil {
		t.Fatal(err)
	}
	kit.Rules(file)
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * time.Hour)
	receive(1)
	if _, err := store.Remove(t.Context(), "r", nil); err != nil {
		t.Fatal(err)
	}
	kit.Rules(file)
	kit.RunFor(time.Hour)
	receive(2)
	kit.DB.MustExec("update cases set closed_at = $1", kit.Now())
	kit.RunFor(time.Hour)
	receive(3)
}
