package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
)

var (
	at   = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	made = time.Date(2026, 3, 1, 9, 30, 2, 123456000, time.UTC)
)

// reminder is an event with every attribute.
func reminder() event.Event {
	return event.Event{
		ID: "reminder-1772357400", Source: "/shop", Type: "com.example.reminder", Subject: "reminder",
		Time: at, PublishedAt: made, Data: json.RawMessage(`{"order":42}`),
	}
}

func TestABadEventIsRefusedByAttributeAndRule(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 501)
	for name, test := range map[string]struct {
		change func(*event.Event)
		want   string
	}{
		"no id":                  {func(e *event.Event) { e.ID = "" }, "id: must not be empty"},
		"a blank id":             {func(e *event.Event) { e.ID = " \u00A0" }, "id: must not be empty"},
		"a long id":              {func(e *event.Event) { e.ID = long }, "id: must be at most 1000 bytes, is 1002"},
		"NUL in the id":          {func(e *event.Event) { e.ID = "a\x00" }, "id: must not contain a control character"},
		"bytes in the id":        {func(e *event.Event) { e.ID = "a\xff" }, "id: must be valid UTF-8"},
		"no source":              {func(e *event.Event) { e.Source = "" }, "source: must not be empty"},
		"a long source":          {func(e *event.Event) { e.Source = strings.Repeat("a", 1001) }, "source: must be at most"},
		"a space in the source":  {func(e *event.Event) { e.Source = "my shop" }, "source: must be a URI reference"},
		"no ASCII in the source": {func(e *event.Event) { e.Source = "/caf\u00e9" }, "source: must be a URI reference"},
		"half an escape":         {func(e *event.Event) { e.Source = "/%4" }, "source: must be a URI reference"},
		"no type":                {func(e *event.Event) { e.Type = "" }, "type: must not be empty"},
		"a line break":           {func(e *event.Event) { e.Type = "a\nb" }, "type: must not contain a control character"},
		"a C1 control":           {func(e *event.Event) { e.Type = "a\u0085b" }, "type: must not contain a control character"},
		"a blank subject":        {func(e *event.Event) { e.Subject = " " }, "subject: must not be empty or blank"},
		"a long subject":         {func(e *event.Event) { e.Subject = long }, "subject: must be at most"},
		"a noncharacter":         {func(e *event.Event) { e.Subject = "a\uFFFE" }, "subject: must not contain"},
		"a plane's noncharacter": {func(e *event.Event) { e.Subject = "a\U0001FFFF" }, "subject: must not contain"},
		"an Arabic noncharacter": {func(e *event.Event) { e.Subject = "a\uFDD0" }, "subject: must not contain"},
		"a time too late":        {func(e *event.Event) { e.Time = at.AddDate(8000, 0, 0) }, "time: must be of a year"},
		"a time too late in UTC": {
			func(e *event.Event) { e.Time = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200)) },
			"time: must be of a year from 0 to 9999, is of 10000",
		},
		"a time too early":  {func(e *event.Event) { e.PublishedAt = at.AddDate(-3000, 0, 0) }, "publishedat: must be of a year"},
		"data of no bytes":  {func(e *event.Event) { e.Data = json.RawMessage{} }, "data: must be valid JSON"},
		"data that is text": {func(e *event.Event) { e.Data = json.RawMessage(`hello`) }, "data: must be valid JSON"},
		"data twice":        {func(e *event.Event) { e.Data = json.RawMessage(`{} {}`) }, "data: must be valid JSON"},
		"deep data": {
			func(e *event.Event) {
				e.Data = json.RawMessage(strings.Repeat("[", 6001) + strings.Repeat("]", 6001))
			}, "data: must be nested at most 6000 levels deep",
		},
		"bytes in the data": {func(e *event.Event) { e.Data = json.RawMessage("\"\xff\"") }, "data: must be valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := reminder()
			test.change(&e)
			err := e.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, test.want)
			}
			if text, err := json.Marshal(e); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it was written all the same: %s, %v", text, err)
			}
		})
	}
}

func TestEveryRuleThatIsBrokenIsToldAtOnce(t *testing.T) {
	t.Parallel()
	err := event.Event{Subject: "\x00", Data: json.RawMessage("{")}.Validate()
	for _, attribute := range []string{"id: ", "source: ", "type: ", "subject: ", "data: "} {
		if err == nil || !strings.Contains(err.Error(), attribute) {
			t.Errorf("%v does not name %s", err, attribute)
		}
	}
}
