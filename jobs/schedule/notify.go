package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/jobs/event"
)

// The defaults of Act.Text, for a payload that is an object and for another one.
const (
	textOfObject = "{{.id}}, {{.at}}{{range $name, $value := .payload}}\n{{$name}}: {{$value}}{{end}}"
	textOfValue  = "{{.id}}, {{.at}}{{with .payload}}: {{.}}{{end}}"
)

// problemOfText returns what is wrong with the text of a message. Empty: nothing.
func (a Act) problemOfText(payload json.RawMessage) string {
	switch {
	case a.Text != "" && a.Notify == "":
		return "must stand beside notify"
	case len(a.Text) > message.MaxText:
		return fmt.Sprintf("must be at most %d bytes, is %d", message.MaxText, len(a.Text))
	}
	t, err := template.New("text").Option("missingkey=error").Parse(a.Text)
	if err == nil {
		err = t.Execute(io.Discard, textValues(Occurrence{Payload: payload}, ""))
	}
	if err != nil {
		return strings.TrimPrefix(err.Error(), "template: ") + ": want .id, .at and .payload"
	}
	return ""
}

// textValues returns what the text of a message knows.
func textValues(o Occurrence, at string) map[string]any {
	return map[string]any{"id": o.ScheduleID, "at": at, "payload": message.Plain(o.Payload)}
}

// messageData is the data of an event that is a message.
type messageData struct {
	Occurrence
	message.Message
}

// message returns the event of a message about an occurrence.
func (to *PublishConfig) message(s dueSchedule, o Occurrence, at, now time.Time) event.Event {
	e := to.event(o, at, now)
	e.Type = message.Type(s.act.Notify)
	data, _ := json.Marshal(messageData{o, message.Message{Text: s.text(o, at)}}) // never fails
	e.Data = data
	return e
}

// text returns the text of a message, with a note if its template cannot be executed to the end.
func (s dueSchedule) text(o Occurrence, at time.Time) string {
	otherwise := textOfValue
	if _, is := message.Plain(o.Payload).(map[string]any); is {
		otherwise = textOfObject
	}
	t, err := template.New("text").Parse(cmp.Or(s.act.Text, otherwise))
	if err != nil {
		t = template.Must(template.New("text").Parse(otherwise)) // another version has accepted it
	}
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		zone = time.UTC
	}
	return cmp.Or(message.Execute(t, textValues(o, message.At(at, zone))), o.ScheduleID)
}
