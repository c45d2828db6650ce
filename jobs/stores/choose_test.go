package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// named is a set of stores with these names, in schemas that are all the same one: choosing asks
// none of them.
func named(t *testing.T, db *sqlx.DB, names ...string) *stores.Set {
	t.Helper()
	var list []stores.Store
	for _, name := range names {
		list = append(list, stores.Store{Name: name, DB: db})
	}
	return newSet(t, list...)
}

func choice(t *testing.T, set *stores.Set, key string) string {
	t.Helper()
	store, err := set.Route(key)
	if err != nil {
		t.Fatal(err)
	}
	return store.Name
}

// What is chosen stays so for ever: rows wait where it was chosen before. Other languages may take
// these for a test.
func TestWhichStoreAKeyHasIsTheSameInEveryVersion(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	set := named(t, db, "a", "b", "c")
	for key, want := range map[string]string{
		"": "a", "1": "b", "2": "b", "42": "a", "customer-7": "a", "ünïcode": "b", "a b": "a", strings.Repeat("x", 500): "b", "3": "b", "4": "a", "5": "b", "tenant-1": "b", "6": "c", "19": "c",
	} {
		got := choice(t, set, key)
		if got != want {
			t.Errorf("%.20q has %s, not %s", key, got, want)
		}
		var inSQL string
		err := db.GetContext(t.Context(), &inSQL, `
			select s from unnest('{a,b,c}'::text[]) as s order by prescient.window_hash(s || chr(31) || $1) desc, s limit 1`, key)
		if err != nil || inSQL != got {
			t.Errorf("%.20q has %s in SQL, and %s here: %v", key, inSQL, got, err)
		}
	}
}

func TestKeysAreSpreadEvenlyAndOnlyThoseOfAStoreThatComesOrGoesMove(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	four, five := named(t, db, "north", "south", "east", "west"), named(t, db, "south", "west", "tenants/t_1", "north", "east")
	const keys = 20_000
	n := map[string]int{}
	for i := range keys {
		key := fmt.Sprint(i)
		before, after := choice(t, four, key), choice(t, five, key)
		if n[after]++; after != before && after != "tenants/t_1" {
			t.Errorf("key %s goes from %s to %s, though neither has come or gone", key, before, after)
		}
	}
	for name, n := range n {
		// Four deviations.
		if most := 4 * math.Sqrt(keys*0.2*0.8); math.Abs(float64(n)-keys/5) > most {
			t.Errorf("%s has %d of %d keys", name, n, keys)
		}
	}
}

func TestAStoreThatIsDrainedIsChosenNoMoreAndLookedIntoFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := "1"
	for choice(t, w.set, key) != "a" {
		key += "1"
	}
	if list := w.set.Candidates(key); len(list) != 3 || list[2].Name != "a" {
		t.Errorf("%v", list)
	}
	other := newSet(t, stores.Store{Name: "a", DB: w.a.DB}, stores.Store{Name: "b", DB: w.b.DB}) // of another process
	w.drain("a")
	if got := choice(t, w.set, key); got == "a" {
		t.Error("a is chosen")
	}
	if list := w.set.Candidates(key); len(list) != 3 || list[2].Name != choice(t, w.set, key) {
		t.Errorf("%v", list)
	}
	if got := choice(t, other, key); got != "a" {
		t.Errorf("%s is chosen by who knows nothing of it", got)
	}
	if err := other.Refresh(t.Context()); err != nil || choice(t, other, key) != "b" {
		t.Error(err)
	}
	if changed, err := w.set.Drain(t.Context(), "a", "me"); changed || err != nil {
		t.Error("it was drained already", err)
	}
	if a := w.store("a"); a.DrainingBy != "me" || a.DrainingSince.IsZero() {
		t.Errorf("%+v", a)
	}
	if changed, err := w.set.Undrain(t.Context(), "a", "me"); !changed || err != nil || choice(t, w.set, key) != "a" {
		t.Error(changed, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.drain(name)
	}
	if _, err := w.set.Route(key); err == nil || !strings.Contains(err.Error(), "all stores are being drained") {
		t.Error(err)
	}
}

func TestAStoreThatDoesNotAnswerHoldsUpNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	up := pgtest.New(t)
	down, err := sqlx.Open("postgres", "host=/nowhere sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = down.Close() }()
	set := newSet(t, stores.Store{Name: "a", DB: up}, stores.Store{Name: "b", DB: down})
	n := map[string]int{}
	for i := range 100 {
		store, err := set.Route(fmt.Sprint(i))
		switch {
		case err == nil:
			n[store.Name]++
		case strings.Contains(err.Error(), "store b: "):
			n["error"]++
		default:
			t.Error(err)
		}
	}
	if n["a"] < 20 || n["error"] < 20 || n["b"] > 0 {
		t.Errorf("%v", n)
	}
	if _, err := set.Get("b"); err == nil {
		t.Error("b is there")
	}
	if _, err := set.Get("x"); err == nil || !strings.Contains(err.Error(), `there is no store "x"; there are a, b`) {
		t.Error(err)
	}
	if err := set.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "store b: ") {
		t.Error(err)
	}
	if _, err := stores.New(t.Context(), []stores.Store{{Name: "b", DB: down}}, jobs.Config{}); err == nil {
		t.Error("there is a set of nothing")
	}
}

func TestAStoreThatCouldNotBeOpenedHasNoState(t *testing.T) {
	t.Parallel()
	set := newSet(t, stores.Store{Name: "a", DB: pgtest.New(t)}, stores.Store{Name: "b", Err: errors.New("no such host")})
	var got []string
	for store := range set.All() {
		_, err := store.State(t.Context())
		got = append(got, fmt.Sprint(err))
	}
	if diff := cmp.Diff([]string{"<nil>", "read the state of store b: no such host"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStoreWhoseTablesAreLockedHoldsUpNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table prescient.setting in access exclusive mode")
	moved, err := w.set.Move(t.Context(), stores.Move{From: "a", To: []string{"c"}})
	if err != nil || moved.Rows != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
	if b := w.store("b"); b.Err == nil || !strings.HasPrefix(b.Err.Error(), "it has not answered for 10s: ") {
		t.Error(b.Err)
	}
}

func TestARefreshThatBeganEarlierAndEndsLaterForgetsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := get[string](t, w.a, "select current_database()")
	began := get[time.Time](t, w.c, "select clock_timestamp()")
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table prescient.setting in access exclusive mode")
	ended := make(chan struct{})
	go func() {
		_ = w.set.Refresh(t.Context()) // of the second store it may have an answer or none
		close(ended)
	}()
	const answered = `select exists (select from pg_stat_activity where datname = $1 and state = 'idle' and state_change > $2)`
	for !get[bool](t, w.c, answered, name, began) || !waits(t, w.c) { // the first store has answered, and the second one has not
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if changed, err := w.set.Drain(ctx, "a", "me"); !changed || err != nil {
		t.Error(changed, err)
	}
	if err := holder.Rollback(); err != nil {
		t.Error(err)
	}
	<-ended
	if a := w.store("a"); a.DrainingSince.IsZero() {
		t.Error("it is chosen again, though it is being drained")
	}
}

func TestARefreshThatIsCancelledSaysNothingOfItsStores(t *testing.T) {
	t.Parallel()
	set := named(t, pgtest.New(t), "a", "b")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := set.Refresh(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a refresh that is cancelled: %v", err)
	}
	for s := range set.All() {
		if s.Err != nil || s.Client == nil {
			t.Errorf("store %s, of which nothing is wrong: %v", s.Name, s.Err)
		}
	}
}

func TestASetThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	db := sqlx.NewDb(sql.OpenDB(nil), "postgres")
	for want, list := range map[string][]stores.Store{
		"there are no stores":           nil,
		"Name and DB must be set":       {{Name: "a"}},
		`store 2 of 2, "": Name and DB`: {{Name: "a", DB: db}, {DB: db}},
		"two stores have the name a":    {{Name: "a", DB: db}, {Name: "a", DB: db, Schema: "b"}},
	} {
		if _, err := stores.New(context.Background(), list, jobs.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}
