package schedulescmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule"
)

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	t.Parallel()
	want := []schedule.Spec{
		{ID: "least", Crontab: "@daily", KeepPaused: true}, // it does not say whether it is
		{
			ID: "whole", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin", Payload: json.RawMessage(`{"at":"2026-01-01","n":[1,2.5,null,true]}`),
			Deadline: 2 * time.Hour, Spread: 10 * time.Minute, Misfire: schedule.Latest, Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Paused: true,
			DeadlineFrom: schedule.FromSlot, Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), End: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC),
			MaxRuns: 5, Exclude: []string{"sat,sun", "2026-12-25", "* 0-5 * * *"},
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
    deadline_from: slot
    start: 2026-03-01
    end: "2027-03-01"
    max_runs: 5
    exclude: ["sat,sun", 2026-12-25, "* 0-5 * * *"]
`,
		"JSON": "{\n\t\"schedules\": [{\"id\": \"least\", \"crontab\": \"@daily\"}, {\"id\": \"whole\", \"crontab\": \"0 9 * * mon-fri\", \"timezone\": \"Europe\\/Berlin\"," +
			`"payload": {"at":"2026-01-01","n":[1,2.5,null,true]}, "deadline": "2h", "spread": "10m", "misfire": "latest", "anchor": "2026-01-01T00:00:00Z", "paused": true, "deadline_from": "slot",` +
			`"start": "2026-03-01", "end": "2027-03-01T00:00:00Z", "max_runs": 5, "exclude": ["sat,sun", "2026-12-25", "* 0-5 * * *"]}]}`,
	} {
		got, err := parseSchedules(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got, err := parseSchedules("schedules: []"); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

func TestAFileMaySayItsVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"version: 1\nschedules:\n  - {id: a, crontab: '@daily'}\n":               "",
		"version: 1\nid: a\ncrontab: '@daily'\n":                                 "",
		`{"version": 1, "schedules": [{"id": "a", "crontab": "@daily"}]}`:        "",
		"version: 2\nschedules:\n  - {id: a, crontab: '@daily'}\n":               "line 1: version must be 1, which is",
		"\nid: a\ncrontab: '@daily'\nversion: 2\n":                               "line 4: version must be 1, which is",
		"version: [1]\nschedules: []\n":                                          "line 1: version must be 1, which is",
		`{"version": 2, "schedules": [{"id": "a", "crontab": "@daily"}]}`:        "version must be 1, which is",
		`{"version": "x", "schedules": [{"id": "a", "crontab": "@daily"}]}`:      "version must be 1, which is",
		`{"schedules": [{"id": "a", "crontab": "@daily"}], "version": 1}`:        "more beside it",
		`{"version": 1, "schedules": [{"id": "a", "crontab": "@daily"}], "x":1}`: "more beside it",
	} {
		list, err := parseSchedules(text)
		switch {
		case want == "" && (err != nil || len(list) != 1 || list[0].ID != "a"):
			t.Errorf("%s: %v, %v", text, list, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// parseSchedules reads all of a file.
func parseSchedules(text string) (list []schedule.Spec, err error) {
	for spec, err := range readSchedules(strings.NewReader(text)) {
		if err != nil {
			return nil, err
		}
		list = append(list, spec)
	}
	return list, nil
}

func TestANumberOfAPayloadIsTheSameInJSON(t *testing.T) {
	t.Parallel()
	const numbers = "[0, -0.0, 1.10, .5, 5., 1000.5, 1e3, -2.5E-3, 1e300, 0.1, 18446744073709551615, -9223372036854775808, 31, !!float 5]"
	got, err := parseSchedules("id: a\ncrontab: '@daily'\npayload: " + numbers)
	if err != nil {
		t.Fatal(err)
	}
	const want = "[0,-0,1.1,0.5,5,1000.5,1000,-0.0025,1e+300,0.1,18446744073709551615,-9223372036854775808,31,5]"
	if string(got[0].Payload) != want {
		t.Errorf("%s, want %s", got[0].Payload, want)
	}
}

func TestAFileIsAStreamOfSchedulesAndOfListsOfThem(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"documents": "id: a\ncrontab: '@daily'\n---\nid: b\ncrontab: '@daily'\n--- # nothing\n---\nid: c\ncrontab: '@daily'\n",
		"mixed":     "# a comment\n---\nschedules:\n  # another\n\n  - id: a\n    crontab: '@daily'\n  - {id: b, crontab: '@daily'}\n---\nid: c\ncrontab: '@daily'\n...\n",
		"flow":      "{id: a, crontab: '@daily'}\n--- {\"id\": \"b\", crontab: \"@daily\"}\n---\n{schedules: [{id: c, crontab: '@daily'}]}\n",
		"flow list": "\n{schedules: [\n  {id: a, crontab: '@daily'},\n  {id: b, crontab: '@daily'}, # a comment\n  {\"id\": \"c\", \"crontab\": \"@daily\"},\n]}\n",
		"commas":    `{"schedules": [{"id": "a", "crontab": "@daily"}, {"id": "b", "crontab": "@daily"}, {"id": "c", "crontab": "@daily",},]}`,
		"JSON":      `{"id": "a", "crontab": "@daily"}` + "\n" + `{"id": "b", "crontab": "@daily"} {"id": "c", "crontab": "@daily"}`,
	} {
		got, err := parseSchedules(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var want []schedule.Spec
		for _, id := range []string{"a", "b", "c"} {
			want = append(want, schedule.Spec{ID: id, Crontab: "@daily", KeepPaused: true})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A file that is read in many pieces says the same, and names the same lines.
func TestALongFileIsReadInPieces(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, form := range map[string][2]string{
		"documents":  {"", "---\nid: s%d\ncrontab: '@daily'\npayload: |\n  ---\n  schedules:\n  - a\n"},
		"a list":     {"schedules:\n", "- id: s%d\n  crontab: '@daily'\n  payload:\n  - id: |\n      - b\n  \n"},
		"a deep one": {"# a\n\nschedules: # b\n", "   - id: s%d\n     crontab: '@daily'\n     payload: [1,\n       2]\n"},
	} {
		var text strings.Builder
		text.WriteString(form[0])
		for i := range n {
			fmt.Fprintf(&text, form[1], i)
		}
		read := 0
		for p, err := range pieces(bufio.NewReader(strings.NewReader(text.String()))) {
			if read++; err != nil || len(p.text) > 2*pieceSize {
				t.Errorf("%s: a piece of %d bytes, %v", name, len(p.text), err)
			}
		}
		list, err := parseSchedules(text.String())
		if err != nil || len(list) != n || read < 2 {
			t.Fatalf("%s: %d schedules in %d pieces, %v", name, len(list), read, err)
		}
		for i, spec := range list {
			if spec.ID != fmt.Sprintf("s%d", i) || string(spec.Payload) != string(list[0].Payload) {
				t.Fatalf("%s: the schedule %d is %+v", name, i, spec)
			}
		}
		mistake := strings.Replace(form[1], "crontab", "cron", 1)
		if _, err := parseSchedules(text.String() + fmt.Sprintf(mistake, n)); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("line %d: there is no field cron: did you mean crontab?", 1+strings.Count(text.String()+mistake[:strings.Index(mistake, "cron")], "\n"))) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMistakesInAFileOfSchedulesAreNamedWithTheirLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "empty",
		"# nothing\n":            "empty",
		"{}":                     "schedule 1 of the file: id",
		"schedules:\n":           `neither an id nor a list "schedules"`,
		"crontab: x\n":           `neither an id nor a list`,
		"id: a\nschedules: []\n": `write --- between them`,
		"timezone: Europe/Zurich\nschedules:\n- id: a\n":     `timezone stands beside the list "schedules": write it into each schedule`,
		"schedules:\n- id: a\ncrontab: x\npayload: {a: 1}\n": `crontab stands beside the list "schedules"`,
		"id: a\n---\ncron: x\n":                              "line 3: there is no field cron: did you mean crontab?",
		"schedule: []\n":                                     "line 1: there is no field schedule: did you mean schedules?",
		"schedules:\n- id: a\n  cron: x\n":                   "line 3: there is no field cron: did you mean crontab?",
		"schedules:\n- id: a\n  id: b\n":                     "line 3: mapping key",
		"schedules:\n- id: a\n  deadline: soon\n":            "line 3:",
		"schedules:\n- id: a\n  start: soon\n":               `line 3: time "soon": want an instant such as`,
		"schedules:\n- id: a\n  end: 2027-02-30\n":           `line 3: time "2027-02-30": there is no such time: day out of range`,
		"schedules:\n- id: a\n  anchor: 2027-02-01 09:00:00": `line 3: time "2027-02-01 09:00:00": it has no time zone: add Z for UTC`,
		"schedules:\n- id: a\n  exclude: sat,sun\n":          "line 3: want a list, not `sat,sun`",
		"schedules:\n- id: a\n  max_runs: many\n":            "line 3: want a number, not `many`",
		"schedules:\n- id: a\n  paused: maybe\n":             "line 3: want true or false, not `maybe`",
		"schedules:\n- id: [a]\n":                            "line 2: want a string, not a list",
		"schedules: a\n":                                     "line 1: want a list, not `a`",
		"schedules:\n- id: a\n  payload:\n    x: 2026-01-01": "line 4: JSON has no timestamps",
		"id: a\npayload: [1, 12345678901234567890123]":       "line 2: the number 12345678901234567890123 would become 1.2345678901234568e+22: write it in decimal digits, or in quotes if it is a text",
		"id: a\npayload: {x: 0.12345678901234567890}":        "line 2: the number 0.12345678901234567890 would become 0.12345678901234568",
		"id: a\npayload: 01234":                              "line 2: the number 01234 would become 668: write it in decimal digits, or in quotes if it is a text",
		"id: a\npayload: {a: [0o17]}":                        "line 2: the number 0o17 would become 15",
		"id: a\ncrontab: * * * * *\n":                        `line 2: crontab begins with a character that has a meaning in YAML: quote it, such as crontab: "* * * * *"`,
		"schedules:\n- id: a\n  crontab: */5 * * * *\n":      `line 3: crontab begins with a character that has a meaning in YAML: quote it, such as crontab: "*/5 * * * *"`,
		"schedules:\n- crontab: @daily\n  id: a\n":           `line 2: crontab begins with a character that has a meaning in YAML: quote it, such as crontab: "@daily"`,
		"id: a\nexclude: [* * 25 12 *]\n":                    `line 2: exclude begins with a character that has a meaning in YAML: quote it, such as exclude: "* * 25 12 *"`,
		"id: a\npayload: 0x1F":                               "line 2: the number 0x1F would become 31",
		"id: a\npayload: 089":                                "line 2: the number 089 would become 89",
		"id: a\npayload: 01.5":                               "line 2: the number 01.5 would become 1.5",
		"id: a\npayload: 1_000":                              "line 2: the number 1_000 would become 1000",
		"id: a\npayload: [0b11]":                             "line 2: the number 0b11 would become 3",
		"id: &a 0123\npayload: [*a]":                         "line 1: the number 0123 would become 83",
		"id: a\nmax_runs: 010":                               "line 2: the number 010 would become 8",
		"id: a\nmax_runs: many":                              "line 2: want a number, not `many`",
		"id: a\npayload: -1e-999999999":                      "line 2: the number -1e-999999999 would become -0",
		"schedules:\n- id: a\n  payload: {1: 2}\n":           "line 3: payload",
		"schedules:\n- id: a\n  payload: .nan\n":             "line 3: payload",
		"schedules:\n- crontab: x\n":                         "schedule 1 of the file: id",
		"schedules: [\n":                                     "line 1: did not find",
		`{"schedules": [{"id": "a"}, {"id": 1}]}`:            "schedule 2 of the file: id: want a string, not number",
		`{"id": "a"} {"max_runs": "x"}`:                      "schedule 2 of the file: max_runs: want a number, not string",
		`{"schedules": 1}`:                                   `no list "schedules"`,
		`{"schedules": [], "more": 1}`:                       "more beside it",
		`{"schedules": []} {}`:                               "goes on after",
		`{"schedules": [{"id": "a", "cron": "x"}]}`:          `schedule 1 of the file: there is no field cron: did you mean crontab?`,
		`{"schedules": [{"id": "a", "spread": "x"}]}`:        "x",
		`{"schedules": [{"id": "a", "end": "2027-02-30"}]}`:  `schedule 1 of the file: time "2027-02-30": there is no such time`,
		`{"schedules": [{"id": "a", "end": 2027}]}`:          "schedule 1 of the file: end: want a string, not number",
		`{"id": "a", "crontab": "x", "crontab": "y"}`:        "schedule 1 of the file: it has crontab twice",

		// Longer texts stand apart, so that the lines above keep their alignment.
		`{"schedules": [{"id": "a", "crontab": "@daily"} , {"id": "b", "id": "c"}]}`:                              "schedule 2 of the file: it has id twice",
		strings.Repeat(`{"id": "a", "crontab": "@daily"}`+"\n", 999) + `{"id": "a", "payload": {"x": 1, "x": 2}}`: "schedule 1000 of the file: payload has x twice",
		`{"id": "a", "colour": "x"}`:                              `schedule 1 of the file: there is no field colour: want one of id, crontab, timezone, payload, deadline,`,
		"id: a\ncrontb: x":                                        "line 2: there is no field crontb: did you mean crontab?",
		"shedules:\n- id: a":                                      "line 1: there is no field shedules: did you mean schedules?",
		"id: a\ncolour: x":                                        "line 2: there is no field colour: want one of version, schedules, id, crontab, timezone, payload, deadline,",
		`{"id": "a", "crontab": "x", "Crontab": "y"}`:             `schedule 1 of the file: it has the unknown field "Crontab": want "crontab"`,
		`{"schedules": [{"id": "a\ud800", "crontab": "@daily"}]}`: `schedule 1 of the file: id has half a surrogate pair`,
		"[]": `it is a list: want {"schedules": [...]}`,
	} {
		_, err := parseSchedules(text)
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
		specs, err := parseSchedules(string(text))
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
