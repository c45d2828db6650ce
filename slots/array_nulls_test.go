package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// With array_nulls = off the server reads NULL in the text of an array as that text.
func TestARunRecordsTheSameWhateverArrayNullsIs(t *testing.T) {
	t.Parallel()
	const rows = 30 // more than are recorded one by one
	var recorded [2][]string
	for i, value := range []string{"on", "off"} {
		w := setup(t)
		db, err := pgsql.Open(t.Context(), w.url, pgsql.Param("array_nulls", value))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		w.db = db
		w.registry.Register("mixed", jobs.Row(func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
			n, err := strconv.Atoi(j.EntityKey)
			later := slot(3 + n)
			switch {
			case err != nil || n%3 == 0:
				return nil, err
			case n%3 == 1:
				return &later, nil
			}
			return nil, errors.New("not yet")
		}))
		w.enqueue("mixed", slot(1), rows)
		result := w.run(slot(1))
		recorded[i] = append(recorded[i], fmt.Sprint(result.Checked, result.Finished, result.Rescheduled, result.Failed))
		for _, j := range w.waiting() {
			recorded[i] = append(recorded[i], fmt.Sprint(j.EntityKey, " ", j.NextCheckAt, " ", j.ErrorCount, " ", j.LastError, " ", string(j.Payload)))
		}
		recorded[i] = append(recorded[i], fmt.Sprint(w.outcomes()))
	}
	if diff := cmp.Diff(recorded[0], recorded[1]); diff != "" || len(recorded[0]) != 2+rows*2/3 {
		t.Errorf("%d lines; on -, off +:\n%s", len(recorded[0]), diff)
	}
}
