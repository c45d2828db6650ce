// Package slottest opens a slot with rows for the tests of the packages beside it.
package slottest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/row"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// noon is the slot, and the instant of the replayed clock.
var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// Slot is a slot with rows of one job, and a run that is in it.
type Slot struct {
	*phase.Contexts
	Server  *db.Server
	Session *claim.Session
	Leases  *claim.Keeper
	Def     *jobs.Definition
	Number  int64 // of the job

	t testing.TB
}

// Open returns a slot with n rows of a job, on the entities "order 0", "order 1" and so on. register registers the job.
func Open(t testing.TB, n int, register func(r *jobs.Registry)) *Slot {
	t.Helper()
	pool, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	client, err := jobs.NewClient(t.Context(), pool, jobs.Config{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	registry := jobs.NewRegistry()
	register(registry)
	s := &Slot{t: t, Server: &db.Server{
		DB: pool, Schema: "prescient", Citus: pgtest.OnCitus(), Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}}
	for def := range registry.All() {
		s.Def = def
	}
	var list []jobs.Request
	for i := range n {
		j := jobs.Request{JobExec: s.Def.Name, EntityName: "order", EntityKey: fmt.Sprint(i)}
		j.CheckAt = noon
		list = append(list, j)
	}
	if _, err := client.EnqueueMany(t.Context(), jobs.OwnTx(pool), list); err != nil {
		t.Fatal(err)
	}
	s.enter()
	return s
}

// enter makes a run enter the slot.
func (s *Slot) enter() {
	s.t.Helper()
	s.Contexts = phase.New(context.WithoutCancel(s.t.Context()), 0)
	s.t.Cleanup(s.End)
	s.Session = &claim.Session{
		Contexts: s.Contexts, Server: s.Server, Slot: noon, Entry: claim.Entry{Kind: "run"},
		Token: claim.NewToken(), Runner: "test", Clock: func() any { return noon }, Jobs: new(row.Jobs),
		Turn: make(chan struct{}, 1),
	}
	s.Leases = claim.NewKeeper(s.Session)
	opened, list, err := s.Session.Open(1, claim.Known{Names: []string{s.Def.Name}})
	if err != nil || opened.State != "open" {
		s.t.Fatalf("the slot is %s: %v", opened.State, err)
	}
	known := map[int64]*jobs.Definition{}
	for _, j := range list {
		s.Number = j.Number
		known[j.Number] = s.Def
	}
	s.Session.Jobs.Set(known, nil)
}

// Another returns another run that is in the same slot.
func (s *Slot) Another() *Slot {
	s.t.Helper()
	other := *s
	other.enter()
	return &other
}

// At returns the slot.
func (s *Slot) At() time.Time { return noon }

// Moment returns the moment at which the slot is run.
func (s *Slot) Moment() guard.Moment { return guard.Moment{Grid: grid.Default, Slot: noon, Now: noon} }

// Claim claims rows, and begins the lease.
func (s *Slot) Claim(rows int64) *claim.Claim {
	s.t.Helper()
	c, _, err := s.Session.Claim([]int64{s.Number}, rows)
	if err != nil || c == nil {
		s.t.Fatalf("claimed %v: %v", c, err)
	}
	c.Begin(s.Checks)
	s.t.Cleanup(c.Release)
	s.Leases.Add(c.Lease)
	return c
}

// Read reads the rows of a claim.
func (s *Slot) Read(c *claim.Claim) []jobs.FutureJob {
	s.t.Helper()
	rows, err := s.Session.Read(c, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	return rows.List
}

// Lose takes a claim away from its run, as a runner does that takes the claim over.
func (s *Slot) Lose(c *claim.Claim) {
	s.t.Helper()
	s.exec(`update prescient.slot_claim set token = token + 1 where token = $1`, c.Token)
}

// Expire ends the lease of a claim, as after the death of its runner.
func (s *Slot) Expire(c *claim.Claim) {
	s.t.Helper()
	s.exec(`update prescient.slot_claim set allocated_until = now() - interval '1 s' where token = $1`, c.Token)
}

func (s *Slot) exec(query string, args ...any) {
	s.t.Helper()
	result, err := s.Server.DB.ExecContext(s.t.Context(), query, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		s.t.Fatalf("%d rows: %v", n, err)
	}
}

// Lock locks the row of an entity of the job in a transaction, until unlock.
func (s *Slot) Lock(entityKey string) (unlock func()) {
	s.t.Helper()
	tx, err := s.Server.DB.BeginTxx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = tx.ExecContext(s.t.Context(), `select from prescient.future_job where entity_key = $1 for update`, entityKey)
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// Ended returns the outcomes in history, as "0 done", "1 failed", in the order of their entities.
func (s *Slot) Ended() []string {
	s.t.Helper()
	list := []string{}
	if err := sqlx.SelectContext(s.t.Context(), s.Server.DB, &list,
		`select entity_key || ' ' || outcome from prescient.future_job_history order by 1`); err != nil {
		s.t.Fatal(err)
	}
	return list
}
