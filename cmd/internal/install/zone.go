package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// MachineZone returns the zone of this machine's clock, whatever TZ says: cron does not know TZ.
func MachineZone() (*time.Location, error) {
	const local = "/etc/localtime"
	rules, err := os.ReadFile(local)
	if errors.Is(err, fs.ErrNotExist) {
		return time.UTC, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read this machine's zone: %w", err)
	}
	target, _ := filepath.EvalSymlinks(local)
	_, name, _ := strings.Cut(target, "/zoneinfo/")
	zone, err := time.LoadLocationFromTZData(cmp.Or(name, local), rules)
	if err != nil {
		return nil, fmt.Errorf("understand this machine's zone in %s: %w", local, err)
	}
	return zone, nil
}

// cronTZ matches a line of a crontab that sets the zone of the lines below. cronie obeys it, and
// Debian's cron does not.
var cronTZ = regexp.MustCompile(`^\s*CRON_TZ\s*=\s*["']?([^"'\s]*)["']?\s*$`)

// CronTZ returns the zone that a line of a crontab sets for the lines below, and whether it sets one.
// Empty: that of the machine.
func CronTZ(line string) (zone string, sets bool) {
	m := cronTZ.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// ZoneAt returns the CRON_TZ of a user's crontab that holds for the block of this setup. Empty: the
// zone of the machine.
func (s Setup) ZoneAt(crontab string) (zone string) {
	for line := range strings.Lines(crontab) {
		if strings.TrimSpace(line) == beginMark+s.mark() {
			break
		}
		if name, sets := CronTZ(line); sets {
			zone = name
		}
	}
	return zone
}
