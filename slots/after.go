package slots

import (
	"database/sql"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// othersWait finds, among rows of jobs that are checked after their group, those in whose group others wait; see jobs.AfterGroup.
// It asks once for all of them.
func (r *run) othersWait(c *claim, rows []jobs.FutureJob, numbers []int64) (map[int64]bool, error) {
	var after pq.Int64Array
	for number, def := range r.jobs { // in whatever slot they wait, paused or not
		if def.AfterGroup {
			after = append(after, number)
		}
	}
	for number, job := range r.known { // registered since the runner was made
		if job.def.AfterGroup && r.jobs[number] == nil {
			after = append(after, number)
		}
	}
	if len(after) == 0 {
		return nil, nil
	}
	var ids pq.Int64Array
	var groups []sql.NullString
	var names, keys pq.StringArray
	for i := range rows {
		// Nothing tells which others are of the group of an anonymous row without a key.
		if j := &rows[i]; r.known[numbers[i]].def.AfterGroup && (j.GroupKey != "" || !j.Anonymous) {
			ids = append(ids, j.ID)
			groups = append(groups, nullable(j.GroupKey))
			names, keys = append(names, j.EntityName), append(keys, j.EntityKey)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found := map[int64]bool{}
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	m.Add(pgsql.GroupOthers.In(r.schema), []any{ids, pq.Array(groups), names, keys, after}, into(found))
	return found, r.retry(c.ctx, passes, func() error { return r.commit(r.work, &m) })
}
