package jobs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
)

// With array_nulls = off the server reads NULL in the text of an array as that text.
func TestManyRowsAreEnqueuedAlikeWhateverArrayNullsIs(t *testing.T) {
	t.Parallel()
	full := check("1", now.Add(time.Hour))
	full.Payload, full.GroupKey, full.ItemKey, full.Within = json.RawMessage(`{"a": null}`), "NULL", "NULL", 2*time.Hour
	list := []jobs.Request{full, check("2", now.Add(time.Hour)), anonymous("3", now.Add(time.Hour)), check("4", now.Add(time.Hour))}
	list[3].ItemKey = "anonymous" // the text that stands for anonymous rows
	for _, on := range []jobs.OnConflict{jobs.Keep, jobs.Replace} {
		var rows [2][]string
		for i, value := range []string{"on", "off"} {
			w := setupWith(t, "array_nulls", value)
			if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, on); err != nil {
				t.Fatalf("array_nulls = %s: %v", value, err)
			}
			if _, err := w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values(list), on); err != nil {
				t.Fatalf("array_nulls = %s: %v", value, err)
			}
			for _, j := range w.waiting() {
				rows[i] = append(rows[i], fmt.Sprintf("%s %q %t %q %s %s", j.Key(), j.ItemKey, j.Anonymous, j.GroupKey, j.Payload, j.NextCheckAt))
			}
			slices.Sort(rows[i])
		}
		if diff := cmp.Diff(rows[0], rows[1]); diff != "" || len(rows[0]) != len(list)+1 {
			t.Errorf("%d rows; on -, off +:\n%s", len(rows[0]), diff)
		}
	}
}
