package slots

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Due returns the slot that a run started now is for.
//
// A Kubernetes CronJob names its Jobs <name>-<minutes since the Unix epoch> after the instant they were scheduled
// for, so that a pod that starts late still runs its own slot: jobName, when it ends like that, gives the slot.
// Otherwise, and for an empty jobName, it is now rounded down; up to Config.Early before a boundary it is that
// boundary, for which Run waits.
func (r *Runner) Due(jobName string) time.Time {
	now := r.Now()
	if at, ok := scheduledAt(jobName); ok && !at.After(now.Add(r.cfg.Early)) {
		return r.Grid().Floor(at)
	}
	return r.Grid().Floor(now.Add(r.cfg.Early))
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

// await waits for a slot whose boundary is near, so that no check starts early, and refuses any other that is no
// slot or lies ahead.
func (r *Runner) await(ctx context.Context, slot time.Time) error {
	if !r.Grid().Contains(slot) {
		return fmt.Errorf("%s is not a slot: the width is %s; the slots around it are %s and %s", slot.Format(time.RFC3339Nano),
			r.Grid().Width(), r.Grid().Floor(slot).Format(time.RFC3339), r.Grid().Next(slot).Format(time.RFC3339))
	}
	if ahead := slot.Sub(r.Now()); ahead > r.cfg.Early {
		return fmt.Errorf("slot %s is %s ahead: a slot is never run early", slot.Format(time.RFC3339), ahead.Round(time.Second))
	}
	for {
		ahead := slot.Sub(r.Now())
		if ahead <= 0 {
			return nil
		}
		select {
		case <-time.After(ahead):
		case <-ctx.Done():
			return ErrStopped
		}
	}
}
