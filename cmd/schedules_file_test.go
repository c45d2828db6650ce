package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule"
)

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	t.Parallel()
	want := []schedule.Spec{
		{ID: "least", Crontab: "@daily"},
		{
			ID: "whole", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin", Payload: json.RawMessage(`{"at":"2026-01-01","n":[1,2.5,null,true]}`),
			Deadline: 2 * time.Hour, Spread: 10 * time.Minute, Misfire: schedule.Latest, Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Paused: true,
		},
	}
	for name, text := range map[string]string{
		"YAML": `
schedules:
  - {id: least, crontab: "@daily"}
  - id: whole
    crontab: 0 9 * * mon-fri
    timezone: Europe/Berlin
    payload: {at: "2026-01-01", n: [1, 2.5, null, true]}
    deadline: 2h
    spread: 10m
    misfire: latest
    anchor: 2026-01-01T00:00:00Z
    paused: true
`,
		"JSON": "{\n\t\"schedules\": [{\"id\": \"least\", \"crontab\": \"@daily\"}, {\"id\": \"whole\", \"crontab\": \"0 9 * * mon-fri\", \"timezone\": \"Europe\\/Berlin\"," +
			`"payload": {"at":"2026-01-01","n":[1,2.5,null,true]}, "deadline": "2h", "spread": "10m", "misfire": "latest", "anchor": "2026-01-01T00:00:00Z", "paused": true}]}`,
	} {
		got, err := parseSchedules([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got, err := parseSchedules([]byte("schedules: []")); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

func TestMistakesInAFileOfSchedulesAreNamedWithTheirLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "empty",
		"# nothing\n":                      "empty",
		"{}":                               `no list "schedules"`,
		"schedules:\n":                     `no list "schedules"`,
		"schedule: []\n":                   "line 1: field schedule not found",
		"schedules:\n- id: a\n  cron: x\n": "line 3: field cron not found",
		"schedules:\n- id: a\n  id: b\n":   "line 3: mapping key",
		"schedules:\n- id: a\n  deadline: soon\n":            "line 3:",
		"schedules:\n- id: a\n  paused: maybe\n":             "line 3: cannot unmarshal",
		"schedules:\n- id: a\n  payload:\n    x: 2026-01-01": "line 4: JSON has no timestamps",
		"schedules:\n- id: a\n  payload: {1: 2}\n":           "line 3: payload",
		"schedules:\n- id: a\n  payload: .nan\n":             "line 3: payload",
		"schedules:\n- crontab: x\n":                         "schedule 1 of the list: id",
		"schedules: []\n---\nschedules: []\n":                "more than one document",
		"schedules: [\n":                                     "line 1: did not find",
		`{"schedules": [{"id": 1}]}`:                         "line 1: schedules.id: want a string, not number",
		`{"schedules": [{"id": "a", "cron": "x"}]}`:          `unknown field "cron"`,
		`{"schedules": [{"id": "a", "spread": "x"}]}`:        "x",
		"[]": "line 1: the file: want an object, not array",
	} {
		_, err := parseSchedules([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cmd.") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseSchedules(f *testing.F) {
	f.Add([]byte("schedules:\n- id: a\n  crontab: '@daily'\n  payload: &a [1, {x: 2.5}]\n  deadline: 7d\n"))
	f.Add([]byte(`{"schedules": [{"id": "a", "crontab": "@daily", "payload": {"x": "\u0000"}, "anchor": "2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte("schedules:\n- id: a\n  payload: &a [*a]\n"))
	f.Add([]byte("a: &a [x]\nb: &b [*a, *a]\nschedules: *b\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		specs, err := parseSchedules(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		for _, s := range specs {
			if s.ID == "" || s.Payload != nil && !json.Valid(s.Payload) {
				t.Errorf("%+v", s)
			}
		}
	})
}
