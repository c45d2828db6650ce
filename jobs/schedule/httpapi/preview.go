package httpapi

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
	Instants []instant `json:"instants"`
	More     bool      `json:"more"`
}

type instant struct {
	Instant time.Time `json:"instant"`
	Slot    time.Time `json:"slot"`
	Local   time.Time `json:"local"` // The instant in the schedule's time zone.
}

func (a *api) preview(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := web.Query(r, previewQuery...)
	if err != nil {
		return nil, err
	}
	limit, err1 := limitOf(q)
	from, err2 := q.Instant("from", true)
	to, err3 := q.Instant("to", true)
	anchor, err4 := q.Instant("anchor", false)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	if to.Before(from) {
		return nil, web.NewProblem(http.StatusBadRequest, "to: must not be before from")
	}
	g, err := a.Store.Grid(r.Context(), a.DB)
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
	page := preview{Instants: []instant{}}
	for at, slot := range all {
		if page.More = len(page.Instants) == limit; page.More {
			break
		}
		page.Instants = append(page.Instants, instant{at, slot, at.In(zone)})
	}
	return page, nil
}
