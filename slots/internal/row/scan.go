package row

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// withoutTexts is about how many bytes a row takes without its texts.
const withoutTexts = 500

// SizeOf returns about how many bytes a row takes.
func SizeOf(j *jobs.FutureJob) int64 {
	return int64(withoutTexts + len(j.Payload) + len(j.EntityKey) + len(j.ItemKey) + len(j.GroupKey) +
		len(j.LastError) + len(j.TraceParent))
}

// AtOnce bounds the rows that one statement reads, in bytes; MostAtOnce bounds their number by it.
const (
	AtOnce     = 16 << 20
	MostAtOnce = AtOnce / withoutTexts
)

// Scan returns a function that reads the rows of the statements page_read and group_read for a slot, and
// passes each to take. name returns the name of the job of a number.
func Scan(
	slot time.Time, name func(number int64) string, take func(number int64, job jobs.FutureJob) error,
) func(row *sql.Rows) error {
	var id, number, checks, failures, spent, enqueued integer
	var item, group, lastError, traceparent sql.NullString
	var first sql.NullInt64
	var j jobs.FutureJob
	return func(row *sql.Rows) error {
		j = jobs.FutureJob{}
		err := row.Scan(&id, &number, &j.EntityName, &j.EntityKey, &item, &group, &first, &checks, &failures,
			&lastError, &spent, (*[]byte)(&j.Payload), &enqueued, &j.EnqueuedBy, &traceparent)
		if err != nil {
			return fmt.Errorf("read future job: %w", err)
		}
		j.JobExec = name(int64(number))
		j.CheckCount, j.ErrorCount = int(checks), int(failures)
		j.ItemKey, j.Anonymous, j.GroupKey, j.LastError = item.String, !item.Valid, group.String, lastError.String
		j.TraceParent = traceparent.String
		j.EnqueuedAt, j.Spent = time.UnixMicro(int64(enqueued)).UTC(), time.Duration(spent)*time.Microsecond
		if first.Valid {
			j.FirstCheckAt = time.UnixMicro(first.Int64).UTC()
		} else {
			j.FirstCheckAt = slot
		}
		j.ID, j.NextCheckAt = int64(id), slot
		return take(int64(number), j)
	}
}

// integer scans without the reflection that database/sql needs for an int64, and without the text for an
// int, because a row has six integers. Null is 0.
type integer int64

func (n *integer) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*n = integer(v)
	case nil:
		*n = 0
	default:
		return fmt.Errorf("%T is no integer", value)
	}
	return nil
}
