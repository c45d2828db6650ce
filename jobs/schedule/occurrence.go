package schedule

import (
	"encoding/json"
	"fmt"
	"time"
)

// Occurrence is the data of every event of a schedule: what a consumer needs to know that reads no
// CloudEvents.
type Occurrence struct {
	// ID is that of the event, "<schedule>-<generated_at>", the same whenever it is repeated.
	ID string `json:"id"`
	// GeneratedAt is the nominal instant in Unix seconds: the one the crontab gives, not when it
	// was published.
	GeneratedAt int64  `json:"generated_at"`
	ScheduleID  string `json:"schedule_id"`
	// Payload is the payload of the schedule, any JSON value. Null if the schedule has none.
	Payload json.RawMessage `json:"payload"`
}

func newOccurrence(schedule string, at time.Time, payload json.RawMessage) Occurrence {
	return Occurrence{ID: fmt.Sprintf("%s-%d", schedule, at.Unix()), GeneratedAt: at.Unix(), ScheduleID: schedule, Payload: payload}
}

// data is the occurrence as JSON.
func (o Occurrence) data() json.RawMessage {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // the payload is of a jsonb
	}
	return text
}
