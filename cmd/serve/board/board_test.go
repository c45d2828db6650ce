package board

import (
	"context"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestWhatAdviceAsksOfTheDatabaseCounts(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Connect("postgres", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec(`select prescient.job_number('ok')`)
	b, err := New(t.Context(), Config{DB: db, Runner: slots.Config{Registry: jobs.NewRegistry()}, Publishing: &schedule.Publishing{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Job(t.Context(), "ok", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Advice(t.Context(), "ok", 0); err != nil {
		t.Fatal(err)
	}
	b.shelf.mu.Lock()
	defer b.shelf.mu.Unlock()
	// What is known of the job is read in both.
	if job, advice := b.shelf.entries["job ok"].cost, b.shelf.entries["advice ok"].cost; advice < job {
		t.Errorf("advice counts %d statements, where a job's page, which asks for less, counts %d", advice, job)
	}
}

func TestADatabaseThatRefusesIsNotAskedForEachLook(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	b := &Board{cfg: Config{DB: db}, shelf: newShelf()}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _ = b.current(gone)
	if b.failed != nil {
		t.Error("that somebody has gone is kept as an error")
	}
	left := b.shelf.left
	for range 100 {
		if _, err := b.current(t.Context()); err == nil {
			t.Fatal("there are tools")
		}
	}
	if asked := left - b.shelf.left; asked != toolStatements {
		t.Errorf("%v statements were asked for, want %d", asked, toolStatements)
	}
}
