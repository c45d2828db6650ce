package docs_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// TestTheSizesOfRowsAreThoseOfThePage measures 20,000 rows of each kind. The page rounds, so a tenth more or less is right.
// Pages of an index are between two thirds and nine tenths full, depending on the order in which claims write their rows:
// its size may differ by a quarter.
func TestTheSizesOfRowsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	ctx, db, registry := t.Context(), pgtest.New(t), jobs.NewRegistry()
	registry.Register("order.late", jobs.Batch(func(_ context.Context, list []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(list)), nil // nil times: done
	}))
	r, err := replay.New(ctx, replay.Config{DB: db, Registry: registry, Start: midnight, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]jobs.Request, rows)
	for i := range list {
		list[i] = jobs.Request{
			JobExec: "order.late", EntityName: "orders", EntityKey: strconv.Itoa(100_000 + i), CheckAt: midnight.Add(time.Hour),
		}
	}
	if _, err := r.Client.EnqueueMany(ctx, jobs.OwnTx(db), list); err != nil {
		t.Fatal(err)
	}
	page := readPage(t, "sizing.md")
	compare := func(what, tables string) {
		t.Helper()
		var size struct{ Table, Indexes float64 }
		err := db.GetContext(ctx, &size, fmt.Sprintf(`
			select sum(pg_relation_size(relid)) / %[1]d as table, sum(pg_indexes_size(relid)) / %[1]d as indexes
			from (select (pg_partition_tree(oid)).relid from pg_class where relname = '%[2]s' and relkind = 'p'
			union all select oid from pg_class where relname = '%[2]s' and relkind = 'r') tables`, rows, tables))
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`\| ` + what + ` \| (\d+) bytes \| (\d+) bytes \|`).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("sizing.md has no bytes of a %s", what)
		}
		for i, got := range []float64{size.Table, size.Indexes} {
			if said, _ := strconv.ParseFloat(m[i+1], 64); math.Abs(said-got) > said*[]float64{0.1, 0.25}[i] {
				t.Errorf("the %s: sizing.md says %.0f bytes, measured %.0f", what, said, got)
			}
		}
	}
	compare("row that waits", "future_job")
	if _, err := r.Skip(ctx, midnight.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	compare("row in history", "future_job_history")
	db.MustExec(`
		insert into prescient.event_outbox (id, source, type, subject, time, published_at, data)
		select md5(n::text), 'prescient', 'order.late', 'orders/' || n, now(), now(), json_build_object('rule', 'order.late', 'step',
			'order.late', 'since', now(), 'key', n)
		from generate_series(100000, 100000 + $1::integer - 1) n`, rows)
	compare("event in the outbox", "event_outbox")
	db.MustExec(`
		insert into prescient.rule_fired (job, entity_key, since, step)
		select 1, (100000 + n)::text, now() - n * interval '1 minute', 'order.late' from generate_series(0, $1::integer - 1) n`, rows)
	compare("fired step of a rule", "rule_fired")
}
