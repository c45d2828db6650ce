package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// HandedEvent is an event that the check of a rule has handed to the destination that was set then. The database keeps
// that the step has fired, and not the data of the event.
type HandedEvent struct {
	// FiredAt is when the check recorded that the step has fired, in UTC: just after it handed over the event.
	FiredAt time.Time `json:"fired_at"`
	ID      string    `json:"id"`
	// Type and Subject are those of the rule as it is now.
	Type    string `json:"type"`
	Subject string `json:"subject"`
	Rule    string `json:"rule"`
	Step    string `json:"step"`
	Number  int    `json:"number"` // of the times at which the step is due, from 1
	// Dead says that the event is a dead letter: it was refused too often, or is held back behind such an event.
	Dead bool `json:"dead"`
}

// handedSpans are the times back from now within which LastFired looks, one after the other, until it has found
// enough. So it reads little if steps fire often. The last one bounds what it reads if they fire seldom.
var handedSpans = []time.Duration{10 * time.Second, 5 * time.Minute, 2 * time.Hour, 48 * time.Hour, HandedFor}

// HandedFor is how far back LastFired looks.
const HandedFor = 30 * 24 * time.Hour

// LastFired returns the newest events that checks of rules have handed over in the last 30 days, at most limit, the
// newest first. The source is that of the events, by which it knows dead letters. A dead letter that was
// discarded looks like an event that was delivered. Events of steps that a rule has no more are left out.
func (s *Store) LastFired(ctx context.Context, source string, limit int) (list []HandedEvent, err error) {
	err = s.reading(ctx, func(q pgsql.Querier) error {
		for _, span := range handedSpans {
			if list, err = s.lastFired(ctx, q, span, limit); err != nil || len(list) >= limit {
				break
			}
		}
		if err != nil {
			return err
		}
		return s.markDead(ctx, q, source, list)
	})
	if err != nil {
		return nil, fmt.Errorf("read which events rules have handed over: %w", pgsql.ExplainMissing(err))
	}
	return list, nil
}

func (s *Store) lastFired(
	ctx context.Context, q pgsql.Querier, span time.Duration, limit int,
) ([]HandedEvent, error) {
	return pgsql.Append(ctx, q, []HandedEvent{}, pgsql.RuleFiredLast.In(s.schema), []any{limit, span.Seconds()},
		func(row *sql.Rows, e *HandedEvent) error {
			var entity, key string
			var since time.Time
			err := row.Scan(&e.FiredAt, &e.Rule, &entity, &key, &since, &e.Step, &e.Number, &e.Type)
			e.FiredAt, e.Subject = e.FiredAt.UTC(), rule.Subject(entity, key)
			e.ID = rule.EventID(e.Rule, key, since, rule.Repetition(e.Step, e.Number))
			return err
		})
}

// markDead finds the dead letters of a list.
func (s *Store) markDead(ctx context.Context, q pgsql.Querier, source string, list []HandedEvent) error {
	sources, ids, at := make([]string, len(list)), make([]string, len(list)), make(map[string]int, len(list))
	for i, e := range list {
		sources[i], ids[i], at[e.ID] = source, e.ID, i
	}
	type known struct {
		id   string
		dead bool
	}
	args := []any{pq.StringArray(sources), pq.StringArray(ids)}
	refused, err := pgsql.Collect(ctx, q, pgsql.EventDeadKnown.In(s.schema), args,
		func(row *sql.Rows, k *known) error { return row.Scan(new(string), &k.id, &k.dead) })
	for _, k := range refused {
		list[at[k.id]].Dead = k.dead
	}
	return err
}
