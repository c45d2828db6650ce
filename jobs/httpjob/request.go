package httpjob

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// request is the body of a request.
type request struct {
	Store string    `json:"store"`
	Job   string    `json:"job"`
	Slot  time.Time `json:"slot"`
	Rows  []row     `json:"rows"`
}

type row struct {
	ID              int64           `json:"id"`
	EnqueuedAt      time.Time       `json:"enqueued_at"`
	EntityName      string          `json:"entity_name"`
	EntityKey       string          `json:"entity_key"`
	ItemKey         string          `json:"item_key"`
	GroupKey        string          `json:"group_key"`
	Payload         json.RawMessage `json:"payload"`
	FirstCheckAt    time.Time       `json:"first_check_at"`
	CheckCount      int             `json:"check_count"`
	ErrorCount      int             `json:"error_count"`
	LastError       string          `json:"last_error"`
	CaughtUp        bool            `json:"caught_up"`
	LatenessSeconds float64         `json:"lateness_seconds"`
}

func newRequest(store, job string, rows []jobs.FutureJob) request {
	r := request{Store: store, Job: job, Slot: rows[0].Slot, Rows: make([]row, len(rows))}
	for i, j := range rows {
		r.Rows[i] = row{
			ID: j.ID, EnqueuedAt: j.EnqueuedAt, EntityName: j.EntityName, EntityKey: j.EntityKey, ItemKey: j.ItemKey,
			GroupKey: j.GroupKey, Payload: j.Payload, FirstCheckAt: j.FirstCheckAt, CheckCount: j.CheckCount,
			ErrorCount: j.ErrorCount, LastError: j.LastError, CaughtUp: j.CaughtUp, LatenessSeconds: j.Lateness.Seconds(),
		}
	}
	return r
}
