package advise_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/advise"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const day = 24 * time.Hour

// past inserts rows into history that were finished after the given numbers of days, in turn, and
// checked once a day.
func past(t *testing.T, db *sqlx.DB, n int, days ...int) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), `
		insert into prescient.future_job_history (
			id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count, error_count, spent,
			enqueued_at, enqueued_by, journal, outcome, lateness, duration
		)
		select
			n, 'ship', 'order', n, '', begun, begun + days * interval '1 day', days + 1, 0, interval '0', begun, 'shop',
			(select string_agg(format('["next",%s,"here",0,0]', extract(epoch from begun + d * interval '1 day')::bigint), chr(10) order by d)
				from generate_series(0, days - 1) as d),
			'done', interval '0', interval '0'
		from generate_series(1, $1) as n, lateral (select timestamptz '2030-01-01' as begun, ($2::int[])[1 + n % cardinality($2::int[])] as days) as took`,
		n, "{"+strings.Trim(strings.ReplaceAll(fmt.Sprint(days), " ", ","), "[]")+"}")
	if err != nil {
		t.Fatal(err)
	}
}

// about returns the advice about the job that past inserts.
func about(t *testing.T, db *sqlx.DB, b advise.Bounds) (a advise.Advice, read int64) {
	t.Helper()
	list, read, err := advise.Advise(t.Context(), db, "", advise.Options{Bounds: b}, 15*time.Minute)
	if err != nil || len(list) != 1 || list[0].Job != "ship" {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0], read
}

// open fails the test unless the given part of the rows, within 2 %, is open at an age.
func open(t *testing.T, a advise.Advice, age time.Duration, want float64) {
	t.Helper()
	if got := a.OpenAt(age); got < want-0.02 || got > want+0.02 {
		t.Errorf("%.2f are open after %s, want %.2f", got, age, want)
	}
}

func TestAdviceSaysWhichPartOfTheRowsIsOpenAtAnAge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	past(t, db, 600, 3, 4, 5, 6, 7, 8)
	a, _ := about(t, db, advise.Bounds{})
	for after, want := range map[time.Duration]float64{2 * day: 1, 4 * day: 4. / 6, 7 * day: 1. / 6, 8 * day: 0} {
		open(t, a, after, want)
	}
	const checks = 100 * (4 + 5 + 6 + 7 + 8 + 9)
	if a.Rows != 600 || a.Checks != checks || a.FoundNothing != checks-600 {
		t.Errorf("%d rows, %d checks, of which %d found nothing; want 600, %d and %d", a.Rows, a.Checks, a.FoundNothing, checks, checks-600)
	}
	if a.Fixed == nil || a.Fixed.Checks > a.Past.Checks/2 {
		t.Errorf("%+v is not half of %+v", a.Fixed, a.Past)
	}
}

func TestAdviceFollowsAChange(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	past(t, db, 1000, 2)
	past(t, db, 1000, 6) // half of all rows, and most of the recent ones
	a, _ := about(t, db, advise.Bounds{})
	if got := a.OpenAt(3 * day); got < 0.6 {
		t.Errorf("%.2f are open after 3 days: newer rows do not weigh more", got)
	}
}

// A cancelled row is in no slot of the ledger.
func TestAdviceIsFromTheNewestRowsOfHistoryHoweverTheyEnded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	past(t, db, 1000, 1)
	db.MustExecContext(t.Context(), `
		update prescient.future_job_history as h
		set outcome = 'cancelled', finished_at = e.at
		from (select id, finished_at - interval '20 days' as at from prescient.future_job_history offset 0) as e -- offset: Citus refuses it otherwise
		where e.id = h.id`)
	past(t, db, 1000, 8)
	a, read := about(t, db, advise.Bounds{Rows: 1000})
	if read < 500 || read > 1000 {
		t.Errorf("%d rows were read", read)
	}
	open(t, a, 7*day, 1)
}
