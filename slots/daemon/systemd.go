package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/prescient-go/prescient/internal/spoken"
)

// notifier talks to systemd, if systemd runs the process.
type notifier struct {
	on  bool
	log *slog.Logger
}

func (m notifier) ready() { m.notify(systemd.SdNotifyReady) }

func (m notifier) stopping() { m.notify(systemd.SdNotifyStopping + "\nSTATUS=stopping") }

// status sets the text that `systemctl status` shows.
func (m notifier) status(text string) { m.notify("STATUS=" + strings.ReplaceAll(text, "\n", " ")) }

func (m notifier) notify(state string) {
	if !m.on {
		return
	}
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// feedWatchdog feeds the watchdog until ctx ends, as long as the process is alive.
func (m notifier) feedWatchdog(ctx context.Context, alive func() bool) {
	if !m.on {
		return
	}
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		m.log.WarnContext(ctx, "systemd's watchdog is not fed", "error", err)
	}
	if limit == 0 {
		return
	}
	ticker := time.NewTicker(limit / 2)
	defer ticker.Stop()
	for {
		if alive() {
			m.notify(systemd.SdNotifyWatchdog)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// status describes a state to the readers of `systemctl status`.
func (h Health) status() string {
	text := "well"
	switch {
	case len(h.Problems) > 0:
		text = strings.Join(h.Problems, "; ")
	case h.Last != nil:
		text = fmt.Sprintf("slot %s is %s, %d checked", spoken.Instant(h.Last.Slot),
			h.Last.State, h.Last.Checked)
	}
	if h.Next != nil {
		text += "; next slot " + spoken.Instant(*h.Next)
	}
	return text
}
