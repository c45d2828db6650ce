package schedule

import (
	"encoding/json"
	"fmt"
	"time"
)

// Occurrence is the data of every event of a schedule. It is complete for a consumer that does not
// read CloudEvents.
type Occurrence struct {
	// ID is the ID of the event, "<schedule>-<generated_at>". It is the same if the event is
	// repeated.
	ID string `json:"id"`
	// GeneratedAt is the nominal instant in Unix seconds: the instant of the crontab, not of the
	// publication.
	GeneratedAt int64  `json:"generated_at"`
	ScheduleID  string `json:"schedule_id"`
	// Payload is the payload of the schedule, any JSON value. Null if the schedule has none.
	Payload json.RawMessage `json:"payload"`
}

func newOccurrence(schedule string, at time.Time, payload json.RawMessage) Occurrence {
	return Occurrence{
		ID: fmt.Sprintf("%s-%d", schedule, at.Unix()), GeneratedAt: at.Unix(),
		ScheduleID: schedule, Payload: payload,
	}
}

// data returns the occurrence as JSON.
func (o Occurrence) data() json.RawMessage {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot happen: the payload comes from a jsonb
	}
	return text
}
