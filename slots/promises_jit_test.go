package slots_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A role or a server may have a low jit_above_cost for its reports: to compile what a run does takes ten times as long as that. What a
// check does in its transaction is the application's to have compiled.
func TestNothingThatARunDoesIsCompiled(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills tables")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers tell nothing")
	w := setup(t)
	if w.count("select pg_jit_available()::integer") == 0 {
		t.Skip("this server compiles nothing")
	}
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.NextCheckAt.Add(time.Hour)), nil
	}))
	w.registry.Register("tx", jobs.InTx(func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return new(job.NextCheckAt.Add(time.Hour)), nil
	}))
	w.registry.Register("limited", jobs.Row(done), jobs.AtMost(2), jobs.PerSecond(1000))
	for _, job := range []string{"one", "tx", "limited"} {
		w.enqueue(job, slot(1), 20)
	}
	w.db.MustExec(`do $$
		declare
			setting text;
		begin
			foreach setting in array array['session_preload_libraries = auto_explain', 'auto_explain.log_min_duration = 0', 'auto_explain.log_nested_statements = on',
				'auto_explain.log_analyze = on', 'client_min_messages = log', 'jit_above_cost = 0']
			loop
				execute format('alter database %I set ', current_database()) || setting;
			end loop;
		end $$`)
	base, err := pq.NewConnector(w.url)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	compiled := map[string]bool{}
	db := sqlx.NewDb(sql.OpenDB(pg.NewConnector(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) {
		if !strings.Contains(notice.Message, "\nJIT:") {
			return
		}
		_, text, _ := strings.Cut(notice.Message, "Query Text: ")
		mu.Lock()
		defer mu.Unlock()
		compiled[strings.Join(strings.Fields(text[:min(len(text), 500)]), " ")] = true
	}), false)), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	r := w.runner(func(c *slots.Config) { c.DB = db })
	if len(compiled) == 0 {
		t.Fatal("nothing is told of what is compiled")
	}
	clear(compiled)
	w.clock.Set(slot(1))
	if result, err := r.Run(t.Context(), slot(1)); err != nil || result.Checked != 60 {
		t.Fatalf("%+v, %v", result, err)
	}
	for text := range compiled {
		if !strings.Contains(text, "_timeout = 0; select prescient.") { // the call alone
			t.Error(text)
		}
	}
}
