package slots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
)

// Due returns the slot for a run that starts now.
//
// A Kubernetes CronJob names its Jobs <name>-<minutes since the Unix epoch> after the scheduled instant, so that a pod
// that starts late still runs its own slot. If jobName ends in such a number, and its slot lies between the ledger's
// beginning and now, Due returns that slot. A number of another slot is a part of the name, such as a date. Otherwise,
// and for an empty jobName, the slot is now rounded down. Within Config.Early before a boundary it is that boundary,
// for which Run waits.
func (r *Runner) Due(jobName string) time.Time {
	g, now := r.Grid(), r.Now().Add(r.cfg.Early)
	if at, ok := scheduledAt(jobName); ok && !g.Floor(at).Before(r.setting.Since) && !at.After(now) {
		return g.Floor(at)
	}
	return g.Floor(now)
}

// scheduledAt reads the suffix of a Job's name, as CronJobs of Kubernetes 1.21 and later write it. Eight digits cover
// the years 1989 to 2160; a Job that was created by hand, such as retry-2, does not look like that.
func scheduledAt(jobName string) (time.Time, bool) {
	suffix := jobName[strings.LastIndexByte(jobName, '-')+1:]
	if len(suffix) != 8 || len(suffix) == len(jobName) {
		return time.Time{}, false
	}
	minutes, err := strconv.ParseUint(suffix, 10, 32)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(int64(minutes)*60, 0).UTC(), true
}

// await waits for a slot whose boundary is at most early ahead, so that no check starts before it.
// It refuses an instant that is no slot or lies further ahead. It returns ErrStopped if ctx ends
// first. waited reports whether the boundary was ahead.
func await(
	ctx context.Context, g grid.Grid, slot time.Time, early time.Duration, now func() time.Time,
) (waited bool, err error) {
	if slot.IsZero() {
		return false, errors.New("the slot is not set")
	}
	if !g.Contains(slot) {
		return false, fmt.Errorf("%s is not a slot: the width is %s; the slots around it are %s and %s",
			slot.UTC().Format(time.RFC3339Nano),
			g.Width(), spoken.Instant(g.Floor(slot)), spoken.Instant(g.Next(slot)))
	}
	for ahead := slot.Sub(now()); ahead > 0; ahead = slot.Sub(now()) {
		if ahead > early { // at once, or because the clock was set back
			return waited, fmt.Errorf("slot %s is %s ahead: a slot is never run early", spoken.Instant(slot),
				spoken.Duration(ahead))
		}
		if waited = true; !elapsed.Sleep(ctx, ahead) {
			return waited, ErrStopped
		}
	}
	return waited, nil
}
