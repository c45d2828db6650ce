package pages

import (
	"encoding/json"
	"net/http"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// pick is the box of a row of a list, by which an operator selects it.
type pick struct {
	Value   string // the row, as action.Row; empty: the row cannot be selected
	Label   string
	Checked bool
}

// picks are the boxes of the rows of a list, and the form that they belong to.
type picks struct {
	Picks []pick
	Does  string // the path of the first action of the form
	All   bool   // all boxes are ticked
	Other string // the address of the same page with all boxes ticked, or none
}

// PickOf returns the box of a row.
func (p picks) PickOf(i int) pick {
	if i < len(p.Picks) {
		return p.Picks[i]
	}
	return pick{}
}

// Any reports whether a row can be selected.
func (p picks) Any() bool {
	for _, pick := range p.Picks {
		if pick.Value != "" {
			return true
		}
	}
	return false
}

// newPicks returns the boxes of n rows. row returns a row, and whether an action can change it.
func newPicks(r *http.Request, does string, n int, row func(i int) (view.CheckData, bool)) picks {
	q := r.URL.Query()
	p := picks{Does: does, All: q.Get("all") != "", Picks: make([]pick, n)}
	if q.Set("all", "1"); p.All {
		q.Del("all")
	}
	q.Del("acted")
	p.Other = r.URL.Path + "?" + q.Encode()
	for i := range p.Picks {
		c, changes := row(i)
		if !changes || c.JobExec == schedule.JobExec {
			continue
		}
		value, _ := json.Marshal(action.Row{ID: c.ID, Key: c.Key}) // texts never fail
		p.Picks[i] = pick{string(value), c.String(), p.All}
	}
	return p
}

// pickWaiting returns the boxes of waiting checks. A check without a key cannot be selected, because actions find a
// check by its key.
func pickWaiting(r *http.Request, list []view.Check) picks {
	return newPicks(r, "/do/cancel-selected", len(list), func(i int) (view.CheckData, bool) {
		return list[i].CheckData, !list[i].Anonymous
	})
}

// pickFailed returns the boxes of the checks that were given up.
func pickFailed(r *http.Request, list []view.Ended) picks {
	return newPicks(r, "/do/retry-selected", len(list), func(i int) (view.CheckData, bool) {
		return list[i].CheckData, list[i].Outcome == jobs.OutcomeFailed
	})
}
