package scheduleapi

import (
	"cmp"
	"net/http"
	"time"

	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// preview lists instants of a crontab, and says whether more follow.
type preview struct {
	Instants []previewed `json:"instants"`
	More     bool        `json:"more"`
}

type previewed struct {
	Instant time.Time `json:"instant"`
	Slot    time.Time `json:"slot"`
	Local   time.Time `json:"local"` // The instant in the schedule's time zone.
}

func (a *api) preview(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := web.Given(r)
	limit, err1 := q.Number("limit", defaultInstants, 1, maxInstants)
	from, err2 := q.Instant("from", true)
	to, err3 := q.Instant("to", true)
	anchor, err4 := q.Instant("anchor", false)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	if to.Before(from) {
		return nil, web.NewProblem(http.StatusBadRequest, "to: must not be before from")
	}
	g, _, err := a.Store.Clock(r.Context(), a.DB)
	if err != nil {
		return nil, err
	}
	spec := schedule.Spec{Crontab: q.Get("crontab"), Timezone: q.Get("timezone"), Anchor: cmp.Or(anchor, from)}
	all, err := schedule.Preview(spec, g, from, to)
	if err != nil {
		return nil, err
	}
	zone, err := crontab.Zone(spec.Crontab, spec.Timezone)
	if err != nil {
		return nil, err
	}
	page := preview{Instants: []previewed{}}
	for at, slot := range all {
		if page.More = int64(len(page.Instants)) == limit; page.More {
			break
		}
		page.Instants = append(page.Instants, previewed{at, slot, at.In(zone)})
	}
	return page, nil
}
