package jobs

import (
	"database/sql"
	"strings"
	"time"

	"github.com/lib/pq"
)

// columns turns rows into the parameters of enqueue_many: one array a column. They are encoded here, since the
// driver's general encoder takes as long for an array with nulls or times as the server takes to write the rows.
func columns(list []FutureJob, on Conflict, clock any) []any {
	n := len(list)
	var execs, names, keys, times, payloads, items, groups array
	for _, column := range []*array{&execs, &names, &keys, &times, &payloads, &items, &groups} {
		column.text.Grow(16 * n)
	}
	for _, job := range list {
		execs.add(job.JobExec, true)
		names.add(job.EntityName, true)
		keys.add(job.EntityKey, true)
		times.addTime(job.checkAt())
		payloads.add(string(job.Payload), len(job.Payload) > 0)
		items.add(job.ItemKey, !job.Anonymous)
		groups.add(job.GroupKey, job.GroupKey != "")
	}
	policy, capMicros := on.args()
	return []any{
		execs.literal(), names.literal(), keys.literal(), times.literal(), payloads.literal(), items.literal(),
		groups.literal(), policy, capMicros, clock,
	}
}

// array builds the literal of a PostgreSQL array.
type array struct {
	text strings.Builder
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// add appends a string, or null when it is not valid.
func (a *array) add(s string, valid bool) {
	a.text.WriteByte(',')
	if !valid {
		a.text.WriteString("NULL")
		return
	}
	a.text.WriteByte('"')
	_, _ = arrayEscapes.WriteString(&a.text, s) // a Builder never fails
	a.text.WriteByte('"')
}

func (a *array) addTime(t time.Time) {
	a.text.WriteString(`,"`)
	a.text.Write(pq.FormatTimestamp(t))
	a.text.WriteByte('"')
}

func (a *array) literal() string {
	if a.text.Len() == 0 {
		return "{}"
	}
	return "{" + a.text.String()[1:] + "}"
}

func (j FutureJob) item() sql.NullString {
	return sql.NullString{String: j.ItemKey, Valid: !j.Anonymous}
}
