package slots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/server"
)

// Due returns the slot that a run started now is for. The function Due has the rules; the ledger gives its first slot.
func (r *Runner) Due(jobName string) time.Time {
	return Due(r.Grid(), r.setting.Since, r.Now(), r.cfg.Early, jobName)
}

// Due returns the slot of a grid that a run started now is for.
//
// A Kubernetes CronJob names its Jobs <name>-<minutes since the Unix epoch> after the instant they were scheduled
// for, so that a pod that starts late still runs its own slot. When jobName ends like that, and the slot lies between
// since and now, that is the slot. A number that stands for another slot is a part of a name, such as a date.
// Otherwise, and for an empty jobName, the slot is now rounded down. Up to early before a boundary it is that boundary,
// for which Await waits.
func Due(g grid.Grid, since, now time.Time, early time.Duration, jobName string) time.Time {
	if at, ok := scheduledAt(jobName); ok && !g.Floor(at).Before(since) && !at.After(now.Add(early)) {
		return g.Floor(at)
	}
	return g.Floor(now.Add(early))
}

// scheduledAt reads the suffix of a Job's name, as in CronJobs of Kubernetes 1.21 and later. Eight digits cover the
// years 1989 to 2160; a Job made by hand, such as retry-2, does not look like that.
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

// Await waits for a slot whose boundary is at most early ahead, so that no check starts before it, and refuses any
// other that is no slot or lies ahead. It returns ErrStopped when ctx ends first.
func Await(ctx context.Context, g grid.Grid, slot time.Time, early time.Duration, now func() time.Time) error {
	if slot.IsZero() {
		return errors.New("the slot is not set")
	}
	if !g.Contains(slot) {
		return fmt.Errorf("%s is not a slot: the width is %s; the slots around it are %s and %s", slot.UTC().Format(time.RFC3339Nano),
			g.Width(), g.Floor(slot).Format(time.RFC3339), g.Next(slot).Format(time.RFC3339))
	}
	if ahead := slot.Sub(now()); ahead > early {
		return fmt.Errorf("slot %s is %s ahead: a slot is never run early", slot.UTC().Format(time.RFC3339), spoken.Duration(ahead))
	}
	for ahead := slot.Sub(now()); ahead > 0; ahead = slot.Sub(now()) {
		if !server.Sleep(ctx, ahead) {
			return ErrStopped
		}
	}
	return nil
}
