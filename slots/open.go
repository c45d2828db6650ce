package slots

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// open lets the run into the slot, and opens it where nobody has.
func (r *run) open() (end string, err error) {
	for try := 0; ; try++ {
		var settled bool
		end, settled, err = r.openOnce()
		if err != nil || end != "open" || settled || try == settleTries || r.result.Planned <= int64(r.cfg.Page) {
			return end, err
		}
		if !server.Sleep(r.stop, settleEvery) {
			return end, nil
		}
	}
}

func (r *run) openOnce() (end string, settled bool, err error) {
	var planned, taken sql.NullInt64
	var ahead int64
	var all sql.NullBool
	var m pgsql.Message
	args := []any{r.slot, string(r.sel.kind), r.token, r.cfg.Name, r.cfg.Lease.Microseconds(), r.clock(), r.cfg.Workers}
	m.Add(pgsql.SlotOpen.In(r.schema), args, func(row *sql.Rows) error {
		return row.Scan(&end, &planned, &all, &ahead, &taken, &r.place)
	})
	if err := r.look(r.stop, &m); err != nil {
		return "", false, fmt.Errorf("open: %w", pgsql.ExplainMissing(err))
	}
	r.result.Planned = planned.Int64
	r.result.TakenOver += int(taken.Int64)
	switch {
	case end == "early" && ahead > 0:
		return end, false, earlyError{time.Duration(ahead) * time.Microsecond}
	case end == "early":
		return end, false, errOffGrid
	}
	return end, all.Bool, nil
}

// close closes the slot if nothing of it is left; see prescient.close_slot.
func (r *run) close() (end string, err error) {
	err = r.server.Ask(r.work, r.work, pgsql.SlotClose, []any{r.slot, r.sel.leave, nil}, func(row *sql.Rows) error { return row.Scan(&end) })
	return end, err
}
