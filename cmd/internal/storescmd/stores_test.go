package storescmd

import (
	"fmt"
	"testing"

	"github.com/prescient-go/prescient/jobs/stores"
)

func TestACountThatEndedEarlySaysSo(t *testing.T) {
	t.Parallel()
	const n = stores.Counted
	row := storeState{Waiting: n, Schedules: n, Leaving: n, Arriving: n}.row()
	for _, cell := range row[3:7] {
		if fmt.Sprint(cell) != "10,000+" {
			t.Errorf("%v, want 10,000+", cell)
		}
	}
}
