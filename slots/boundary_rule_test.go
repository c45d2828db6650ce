package slots_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ruled is the name of a rule, whose steps publish, execute SQL and enqueue. Its rows are checked once in slot 1: those
// that finish have no step left then.
const ruled = "ruled"

const ruleFile = `
rules:
  - name: ruled
    table: public.orders
    key: key
    entity: order
    since: placed_at
    done: shipped_at
    steps:
      - {name: first, after: 5m, event: first}
      - name: effect
        after: 8m
        sql: |
          insert into public.effect (id)
          select id from prescient.future_job where entity_name = 'order' and entity_key = $key
      - {name: job, after: 9m, job: escalate}
      - {name: final, after: 15m, event: final}
`

// seedRule places orders, and applies a rule to their table.
func seedRule(c *trial) {
	ctx := c.t.Context()
	c.rows = rowsOf(ruled, slot(1), "finish 1", "move 1", "finish 2", "move 2", "finish 3", "move 3")
	for _, r := range c.rows {
		placed := noon
		if kindOf(r.key) == "move" {
			placed = placed.Add(5 * time.Minute)
		}
		c.testbed.do(c.t, `insert into orders values ($1, $2)`, r.key, placed)
	}
	file, err := rule.Parse(strings.NewReader(ruleFile))
	if err != nil {
		c.t.Fatal(err)
	}
	store, err := rulestore.New(ctx, c.db, rulestore.Config{Now: c.clock.Now})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := store.Apply(ctx, file, nil); err != nil {
		c.t.Fatal(err)
	}
	for i, r := range c.rows {
		const waits = `select id from prescient.future_job where entity_key = $1 and next_check_at = $2`
		if err := c.db.GetContext(ctx, &c.rows[i].id, waits, r.key, r.slot); err != nil {
			c.t.Fatal(err)
		}
	}
}

// registerRule makes a process know the rule. Its checks are written down as seen.
func registerRule(p *process, r *jobs.Registry) {
	err := rule.Register(r, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) { return p.db, nil }, Publisher: outbox.New(p.db, ""), Source: "shop",
	})
	if err != nil {
		p.trial.t.Fatal(err)
	}
	r.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		ended, err := p.start(ctx, call.Rows...)
		if err != nil {
			return nil, err
		}
		defer ended()
		results, err := next(ctx)
		j := p.trial.seen
		j.mu.Lock()
		defer j.mu.Unlock()
		for i, row := range call.Rows {
			j.broken[row.ID] = j.broken[row.ID] || err != nil || results[i].Err != nil
		}
		return results, err
	})
}

// stepsAreThoseOfTheChecks looks whether the steps of each row that was checked have fired once, and no others. Those
// that leave effects are counted elsewhere.
func stepsAreThoseOfTheChecks(c *trial, now []place) {
	var want []string
	for _, r := range c.rows {
		if placeOf(now, r.id).checks == 0 {
			continue
		}
		steps := []string{"first", "effect", "job"}
		events := []string{"first"}
		if kindOf(r.key) == "finish" {
			steps, events = append(steps, "final"), append(events, "final")
		}
		for _, s := range steps {
			want = append(want, fmt.Sprintf("fired %s %s", s, r.key))
		}
		for _, e := range events {
			want = append(want, fmt.Sprintf("event %s %s", e, r.key))
		}
		want = append(want, "job "+r.key)
	}
	var got []string
	c.list(&got, `
		select concat_ws(' ', 'fired', step, entity_key) from prescient.rule_fired
		union all
		select concat_ws(' ', 'event', type, replace(subject, 'order/', '')) from prescient.event_outbox
		union all
		select concat_ws(' ', 'job', f.entity_key) from prescient.future_job f join prescient.job j using (job) where j.name = 'escalate'`)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		c.complain("the steps that fired: %q, want %q", got, want)
	}
}
