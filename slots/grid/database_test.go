package grid_test

import (
	"database/sql"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// The time zone of the session has summer time, which must not matter.
func TestTheDatabaseRoundsAMillionInstantsToTheSameSlots(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Param("timezone", "America/New_York"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })

	const chunk = 100_000
	random := rand.New(rand.NewPCG(11, 12))
	for _, width := range []time.Duration{
		0, time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 90 * time.Minute, 8 * time.Hour, day,
	} {
		g, function := grid.Default, "prescient.slot_ceil(given.at)"
		if width > 0 {
			if g, err = grid.New(width); err != nil {
				t.Fatal(err)
			}
			function = "prescient.slot_ceil(given.at, $4 * interval '1 second')"
		}
		asked, micros, slots := make([]string, chunk), make([]int64, chunk), make([]int64, chunk)
		for i := range chunk {
			at := inRange(random, g, i)
			asked[i] = at.Format("2006-01-02 15:04:05.000000000Z07:00")
			micros[i], slots[i] = grid.RoundMicro(at).UnixMicro(), g.Ceil(at).Unix()
		}
		query := `
			select given.text, given.at at time zone 'UTC', ` + function + ` at time zone 'UTC'
			from (select text, text::timestamptz as at, micro, slot from unnest($1::text[], $2::bigint[], $3::bigint[]) as g (text, micro, slot)) as given
			where $4::integer is not null and (
				(extract(epoch from given.at) * 1000000)::bigint <> given.micro
				or extract(epoch from ` + function + `)::bigint <> given.slot
			)
			limit 10`
		args := []any{pq.Array(asked), pq.Array(micros), pq.Array(slots), int64(width / time.Second)}
		_, err := pg.Collect(t.Context(), db, query, args, func(row *sql.Rows, text *string) error {
			var at, slot time.Time
			err := row.Scan(text, &at, &slot)
			t.Errorf("width %s: %s is %s and slot %s in the database", g, *text, at.Format(time.RFC3339Nano), slot)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inRange returns an instant that a check can be asked for. The first calls return the ends of the
// range, later calls random instants with nine digits of fraction. Many are close to a slot, and
// many exactly between two microseconds.
func inRange(random *rand.Rand, g grid.Grid, nth int) time.Time {
	ends := []time.Time{
		grid.Min(), grid.Min().Add(1), grid.Min().Add(500), grid.Min().Add(501), grid.Min().Add(1500), grid.Max(), grid.Max().Add(-1),
		grid.Max().Add(-499), grid.Max().Add(-500), grid.Max().Add(-501), grid.Max().Add(-1000), grid.Max().Add(-1500), grid.Max().Add(499),
	}
	if nth < len(ends) {
		return ends[nth]
	}
	at := time.Unix(random.Int64N(grid.Max().Unix()-86400)+86400, random.Int64N(int64(time.Second))).UTC()
	switch nth % 4 {
	case 0:
		return at
	case 1:
		return at.Truncate(time.Microsecond).Add(500)
	case 2:
		return g.Floor(at).Add(time.Duration(random.IntN(8)-4) * 500)
	}
	return g.Floor(at).Add(time.Duration(random.IntN(4000) - 2000))
}
