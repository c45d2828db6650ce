package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

func (d *daemon) notifyReady() { d.notify(systemd.SdNotifyReady) }

func (d *daemon) notifyStopping() { d.notify(systemd.SdNotifyStopping + "\nSTATUS=stopping") }

// notifyStatus tells what `systemctl status` shows.
func (d *daemon) notifyStatus() {
	h := d.health(false)
	status := "well"
	switch {
	case len(h.Problems) > 0:
		status = strings.ReplaceAll(strings.Join(h.Problems, "; "), "\n", " ")
	case h.Last != nil:
		status = fmt.Sprintf("slot %s is %s, %d checked", h.Last.Slot.Format(time.RFC3339), h.Last.State, h.Last.Checked)
	}
	if h.Next != nil {
		status += "; next slot " + h.Next.Format(time.RFC3339)
	}
	d.notify("STATUS=" + status)
}

// notify tells systemd something, where the process runs under it.
func (d *daemon) notify(state string) {
	if !d.cfg.Systemd {
		return
	}
	if _, err := systemd.SdNotify(false, state); err != nil {
		d.log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// feedWatchdog keeps systemd's watchdog off until ctx ends, as long as the loop comes round.
func (d *daemon) feedWatchdog(ctx context.Context) {
	if !d.cfg.Systemd {
		return
	}
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		d.log.WarnContext(ctx, "systemd's watchdog is not fed", "error", err)
	}
	if limit == 0 {
		return
	}
	ticker := time.NewTicker(limit / 2)
	defer ticker.Stop()
	for {
		if d.alive(d.patience) {
			d.notify(systemd.SdNotifyWatchdog)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
