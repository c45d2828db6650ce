package scheduleapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// page is a page of schedules.
type page struct {
	Schedules []View `json:"schedules"`
	// The last id of the page, or null on the last page. A page also ends after 4 MiB of payloads.
	After *string `json:"after"`
}

func (a *api) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := web.Given(r)
	limit, err := q.Number("limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return nil, err
	}
	f := schedule.Filter{
		Prefix: q.Get("prefix"), After: q.Get("after"),
		State: schedule.State(q.Get("state")), Limit: int(limit),
	}
	if f.State != "" && f.State != schedule.Active && f.State != schedule.Paused && f.State != schedule.Ended {
		return nil, &jobs.FieldError{Field: "state", Message: "must be active, paused or ended"}
	}
	list, more, err := a.Store.Page(r.Context(), a.DB, f)
	if err != nil {
		return nil, err
	}
	page := page{Schedules: seq.Map(list, NewView)}
	if more {
		page.After = &list[len(list)-1].ID
	}
	return page, nil
}

func (a *api) create(w http.ResponseWriter, r *http.Request) (any, error) {
	var b body
	if err := web.Decode(r, &b); err != nil {
		return nil, err
	}
	s, err := a.changed(r, schedule.Create, func(tx jobs.DB) (schedule.Schedule, error) {
		return a.Store.Create(r.Context(), tx, b.spec())
	})
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", a.Base+"/schedules/"+url.PathEscape(s.ID))
	setVersion(w, s)
	return web.Answer{Status: http.StatusCreated, Value: NewView(s)}, nil
}

func (a *api) get(w http.ResponseWriter, r *http.Request) (any, error) {
	s, err := a.Store.Get(r.Context(), a.DB, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	g, now, err := a.Store.Clock(r.Context(), a.DB)
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewDetail(s, g, now), nil
}

func (a *api) update(w http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	var b body
	if err := web.Decode(r, &b); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if b.ID, err = sameID(b.ID, id); err != nil {
		return nil, err
	}
	s, err := a.changed(r, schedule.Update, func(tx jobs.DB) (schedule.Schedule, error) {
		return a.Store.Update(r.Context(), tx, b.spec(), version)
	})
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewView(s), nil
}

// sameID refuses to give a schedule another id.
func sameID(given, id string) (string, error) {
	if given != "" && given != id {
		return "", &jobs.FieldError{Field: "id", Message: "a schedule keeps its id: leave it out, or give that of the path"}
	}
	return id, nil
}

func (a *api) delete(_ http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	err = a.changing(r, func(tx jobs.DB) error { return a.Store.Delete(r.Context(), tx, id, version) })
	if err == nil {
		a.logChange(r, schedule.Delete, id, version)
	}
	return nil, err
}

type changeFunc func(s *schedule.Store, ctx context.Context, db jobs.DB, id string, version int) (schedule.Schedule,
	error)

func (a *api) change(action schedule.Action, change changeFunc) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		version, err := ifMatch(r)
		if err != nil {
			return nil, err
		}
		s, err := a.changed(r, action, func(tx jobs.DB) (schedule.Schedule, error) {
			return change(a.Store, r.Context(), tx, r.PathValue("id"), version)
		})
		if err != nil {
			return nil, err
		}
		setVersion(w, s)
		return NewView(s), nil
	}
}
