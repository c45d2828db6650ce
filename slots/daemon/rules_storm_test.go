package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Two daemons check the rows of a rule, while applications insert rows late and on time, change their keys, and let them
// leave and enter where, and while the rule is applied again and again. Each step of each row fires once.
func TestEachStepFiresOnceWhileKeysChangeAndRulesAreApplied(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	w.useRules()
	w.db.MustExec("drop table orders; create table orders (id bigint primary key, uid bigint not null, about boolean not null, placed_at timestamptz, shipped_at timestamptz)")
	store, err := rulestore.New(t.Context(), w.db, rulestore.Config{PageSize: 50})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(second string) {
		file, err := rule.Parse(strings.NewReader(fmt.Sprintf(`
rules:
  - {name: late, table: public.orders, key: id, since: placed_at, done: shipped_at, where: about, payload: [uid], overdue: fire,
     steps: [{after: 0s, event: a}, {after: %s, event: b}, {after: 4s, event: c}]}`, second)))
		if err == nil {
			_, err = store.Apply(t.Context(), file, nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	apply("2s")
	_, end := w.start()
	_, endOther := w.start()
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	var writers sync.WaitGroup
	const span = 1_000_000
	rows := make([]int, 3)
	for writer := range rows {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(writer))) //nolint:gosec // a test repeats
			keys := []int{}                                    // by number
			for next := writer * 100 * span; ctx.Err() == nil; next++ {
				uid := writer*100*span + len(keys)
				statement := "insert into orders (id, uid, about, placed_at) values ($1, $2, true, now() - $3 * interval '1 ms')"
				args := []any{next, uid, random.IntN(6000)}
				if which := random.IntN(4); len(keys) > 0 && which > 0 {
					number := random.IntN(len(keys))
					statement, args = "update orders set id = $1 where id = $2", []any{next, keys[number]}
					if which == 1 {
						statement, args = "update orders set about = not about where id = $1", []any{keys[number]}
					} else {
						keys[number] = next
					}
				} else {
					keys = append(keys, next)
				}
				err := pgsql.InTx(context.WithoutCancel(ctx), w.db, func(tx *sqlx.Tx) error {
					_, err := tx.Exec(statement, args...)
					return err
				})
				if err != nil {
					t.Errorf("%s %v: %v", statement, args, err)
				}
				rows[writer] = len(keys)
			}
		})
	}
	for n := 0; ctx.Err() == nil; n++ {
		apply(fmt.Sprintf("%ds", 1+n%2))
	}
	writers.Wait()
	w.db.MustExec("update orders set about = true where not about")
	want := 3 * (rows[0] + rows[1] + rows[2])
	published := "select count(*) from prescient.event_outbox"
	eventually(t, "all steps to fire", func() bool { return w.count(published) >= want })
	eventually(t, "the last checks to end", func() bool { return w.count("select count(*) from prescient.future_job") == 0 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := endOther(); err != nil {
		t.Error(err)
	}
	if n := w.count(published); n != want {
		t.Errorf("%d steps have fired, want %d", n, want)
	}
	if n := w.count("select count(*) from (select from prescient.event_outbox group by data #>> '{payload,uid}', type having count(*) > 1) as e"); n > 0 {
		t.Errorf("%d steps have fired again", n)
	}
	t.Logf("%d rows, %d were renamed", want/3, w.count("select count(*) from prescient.future_job_history where outcome = 'cancelled'"))
}
