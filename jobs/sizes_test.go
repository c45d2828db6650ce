package jobs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

// payloadOf is JSON of some bytes.
func payloadOf(bytes int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`)
}

// Ten thousand permitted payloads are 655 MB, of which a statement made 6 GB. Not parallel, since it measures the
// memory of the process.
func TestAStreamTakesABoundedPartOfTheMemoryWhateverItsPayloads(t *testing.T) {
	ways := map[string]jobs.OnConflict{"copied": jobs.Keep, "replaced": jobs.Replace}
	if testing.Short() {
		delete(ways, "replaced")
	}
	for name, on := range ways {
		s := setup(t)
		var m runtime.MemStats
		held := func() uint64 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before, most := held(), uint64(0)
		all := orders(1500, func(i int, job *jobs.Request) {
			job.Payload = payloadOf(64 << 10)
			if i%50 == 0 {
				most = max(most, held())
			}
		})
		got, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), all, on)
		if err != nil || got.Inserted != 1500 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if mib := (most - min(most, before)) >> 20; mib > 60 {
			t.Errorf("%s: %d MiB were held of 94 MiB of payloads", name, mib)
		}
	}
}

// measured is a transaction that measures its statements.
type measured struct {
	*sqlx.Tx
	sizes []int
}

func (m *measured) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	size := len(query)
	for _, arg := range args {
		if text, ok := arg.(string); ok {
			size += len(text)
		}
	}
	m.sizes = append(m.sizes, size)
	return m.Tx.QueryContext(ctx, query, args...)
}

func TestAListIsWrittenInStatementsOfBoundedSize(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var list []jobs.Request
	for job := range orders(200, func(_ int, job *jobs.Request) { job.Payload = payloadOf(64 << 10) }) {
		list = append(list, job)
	}
	for _, on := range []jobs.OnConflict{jobs.Replace, jobs.Keep} {
		tx := &measured{Tx: s.db.MustBegin()}
		got, err := s.client.EnqueueMany(t.Context(), tx, list, on)
		if err != nil || got.Inserted != 200 {
			t.Errorf("%+v, %v", got, err)
		}
		if len(tx.sizes) < 3 || slices.Max(tx.sizes) > 6<<20 {
			t.Errorf("the statements have %d bytes", tx.sizes)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}
