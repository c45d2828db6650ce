package learn

import (
	"encoding/json"
	"math"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

// Earlier has a row that asked for another check looked at earlier, where the curve of its class says so; see jobs.Learned.
func (b Book) Earlier(d *jobs.Definition, m guard.Moment, row *jobs.FutureJob, v *guard.Verdict) {
	looks := d.MaxChecks/2 - row.CheckCount
	if v.Move != guard.MoveNext || looks < 1 {
		return
	}
	payload := row.Payload
	if v.Payload != nil {
		payload = v.Payload
	}
	curve := b.of(d.Name, classOf(payload, d.LearnBy))
	if curve == nil {
		return
	}
	first := row.FirstCheckAt()
	age := m.Grid.Floor(m.Latest()).Sub(first).Seconds()
	next := curve.next(age, share(looks), d.LearnMin.Seconds(), d.LearnMax.Seconds())
	if next >= v.Next.Sub(first).Seconds() { // before it becomes a Duration, which a long maximum does not fit into
		return
	}
	slot := m.Grid.Ceil(first.Add(time.Duration(math.Ceil(next)) * time.Second))
	if !slot.Before(v.Next) {
		return
	}
	part := curve.ended(age, slot.Sub(first).Seconds())
	text, _ := json.Marshal([]any{slot.Unix(), v.Next.Unix(), int(math.Round(100 * part)), curve.Class})
	v.Next, v.Learned = slot, string(text)
}
