package pages

import (
	"time"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// zoneOf returns the time zone of a schedule. It returns nil for UTC, which the pages show anyway,
// and for a zone that this machine does not know.
func zoneOf(s scheduleapi.View) *time.Location {
	zone, err := crontab.Zone(s.Crontab, s.Timezone)
	if err != nil || zone == time.UTC {
		return nil
	}
	return zone
}

// local returns an instant by the clocks of a zone.
func local(zone *time.Location, at time.Time) string {
	return at.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
}
