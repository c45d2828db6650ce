package docs_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// as runs SQL in a session of a login.
func as(t *testing.T, db *sqlx.DB, login, text string) {
	t.Helper()
	err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		_, err := tx.Exec("set local session authorization " + login + ";" + text)
		return err
	})
	if err != nil {
		t.Errorf("as %s: %v", login, err)
	}
}

func TestALoginThatOnlyWritesOrdersCanWriteThemWithTheTriggerOfThePage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pgtest.DropRoles(t, db, "from_crons_")
	if err := pgsql.MakeRoles(t.Context(), db, "prescient"); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create role from_crons_owner login in role prescient_app; create role from_crons_web login;
		grant create on schema public to from_crons_owner`)
	as(t, db, "from_crons_owner", named(t, "from-crons.md", "tables.sql")+named(t, "from-crons.md", "trigger.sql")+
		"grant insert, update, select on public.orders to from_crons_web")
	as(t, db, "from_crons_web", `
		insert into public.orders (id) values (41), (42);
		insert into public.orders (id, placed_at) values (43, null);
		update public.orders set shipped_at = now()`)
	as(t, db, "from_crons_web", `insert into public.orders (id) values (44)`)
	var got []string
	err := db.SelectContext(t.Context(), &got, `select entity_key || ' ' || outcome from prescient.future_job_history
		union all select entity_key || ' waits' from prescient.future_job order by 1`)
	if diff := cmp.Diff([]string{"41 cancelled", "42 cancelled", "44 waits"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// The login of the page, which owns none of the tables, plays the page.
func TestTheRightsOfThePageAreEnough(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	raw := pgtest.Empty(t)
	owner := poolOf(t, raw)
	pgtest.DropRoles(t, owner, "crons_rights_")
	owner.MustExec("create role crons_rights_cron login password 'cron';" + named(t, "from-crons.md", "tables.sql"))
	var database string
	if err := owner.GetContext(t.Context(), &database, "select quote_ident(current_database())"); err != nil {
		t.Fatal(err)
	}
	owner.MustExec(strings.NewReplacer("database shop ", "database "+database+" ", "shop_cron", "crons_rights_cron").
		Replace(named(t, "from-crons.md", "grants.sql")))
	at, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("crons_rights_cron", "cron")
	cron := poolOf(t, at.String())
	kit := testkit.New(t, testkit.Config{DB: cron})
	file := filepath.Join(t.TempDir(), "rules.yaml")
	apply := func(rules string) {
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		kit.Rules(file)
	}
	rules := named(t, "from-crons.md", "rules.yaml")
	apply(rules)
	owner.MustExec("insert into public.orders (id, placed_at) values (41, $1)", kit.Now())
	cron.MustExec(named(t, "from-crons.md", "compare.sql"))
	change := regexp.MustCompile(`sed -i 's/(.*?)/(.*?)/' rules.yaml`).FindStringSubmatch(readPage(t, "from-crons.md"))
	apply(strings.Replace(rules, change[1], change[2], 1))
	kit.RunFor(49 * time.Hour)
	var alerts int
	if err := owner.GetContext(t.Context(), &alerts, "select count(*) from public.alert where order_id = 41"); err != nil || alerts != 1 {
		t.Errorf("%d alerts for the order, %v: %+v", alerts, err, kit.Waiting())
	}
	if _, err := cron.Exec(named(t, "from-crons.md", "backfill.sql")); err != nil {
		t.Error(err)
	}
}

// poolOf returns a pool, which ends with the test.
func poolOf(t *testing.T, raw string) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestTheBackfillOfThePageRepeatsNoCheckThatHasEnded(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	kit.DB.MustExec(named(t, "from-crons.md", "tables.sql") + "insert into public.orders (id, placed_at) values (3, null)")
	backfill := func() string {
		var got []string
		if err := kit.DB.SelectContext(t.Context(), &got, `select action || ' ' || count from (`+
			strings.TrimSuffix(strings.TrimSpace(named(t, "from-crons.md", "backfill.sql")), ";")+`) of_the_page`); err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, ", ")
	}
	var got []string
	got = append(got, backfill(), backfill())
	kit.RunFor(49 * time.Hour)
	got = append(got, backfill())
	if diff := cmp.Diff([]string{"inserted 2", "kept 2", "recent 2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The login that creates the schema owns it, and any other has no rights.
func TestCronHasTheLoginThatCreatesTheSchema(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`postgres://([^/]+)/`).FindAllString(readPage(t, "from-crons.md"), -1)
	if len(found) < 2 || len(slices.Compact(slices.Clone(found))) != 1 {
		t.Errorf("the page has the logins %v", found)
	}
}
