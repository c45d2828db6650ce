package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

var badRequests = []struct {
	name   string
	change func(*jobs.Request)
	field  string
	rule   string // a part of it
}{
	{"no job_exec", func(j *jobs.Request) { j.JobExec = "" }, "job_exec", "must not be empty"},
	{"long job_exec", func(j *jobs.Request) { j.JobExec = strings.Repeat("x", 201) }, "job_exec", "at most 200 bytes, is 201"},
	{"NUL in job_exec", func(j *jobs.Request) { j.JobExec = "a\x00b" }, "job_exec", "NUL"},
	{"no entity_name", func(j *jobs.Request) { j.EntityName = "" }, "entity_name", "must not be empty"},
	{"long entity_name", func(j *jobs.Request) { j.EntityName = strings.Repeat("ä", 101) }, "entity_name", "at most 200 bytes, is 202"},
	{"bytes in entity_name", func(j *jobs.Request) { j.EntityName = "a\xff" }, "entity_name", "UTF-8"},
	{"surrogate in entity_name", func(j *jobs.Request) { j.EntityName = "a\xed\xa0\x80" }, "entity_name", "UTF-8"},
	{"no entity_key", func(j *jobs.Request) { j.EntityKey = "" }, "entity_key", "must not be empty"},
	{"long entity_key", func(j *jobs.Request) { j.EntityKey = strings.Repeat("x", 501) }, "entity_key", "at most 500 bytes, is 501"},
	{"NUL in entity_key", func(j *jobs.Request) { j.EntityKey = "\x00" }, "entity_key", "NUL"},
	{"long item_key", func(j *jobs.Request) { j.ItemKey = strings.Repeat("x", 501) }, "item_key", "at most 500 bytes"},
	{"bytes in item_key", func(j *jobs.Request) { j.ItemKey = "\x80" }, "item_key", "UTF-8"},
	{"item_key of an anonymous row", func(j *jobs.Request) { j.ItemKey, j.Anonymous = "a", true }, "item_key", "anonymous"},
	{"long group_key", func(j *jobs.Request) { j.GroupKey = strings.Repeat("x", 501) }, "group_key", "at most 500 bytes"},
	{"NUL in group_key", func(j *jobs.Request) { j.GroupKey = "g\x00" }, "group_key", "NUL"},
	{"no time", func(j *jobs.Request) { j.CheckAt = time.Time{} }, "check_at", "must be set"},
	{"before 1970", func(j *jobs.Request) { j.CheckAt = grid.Min().Add(-time.Hour) }, "check_at", "1970-01-01"},
	{"after 9999", func(j *jobs.Request) { j.CheckAt = grid.Max().Add(time.Hour) }, "check_at", "9999-12-31"},
	{"beyond the horizon", func(j *jobs.Request) { j.CheckAt = now.Add(jobs.DefaultHorizon + 15*time.Minute) }, "check_at", "horizon, 5 years from now, " + now.UTC().Format(time.RFC3339) + ": got " + now.Add(jobs.DefaultHorizon+15*time.Minute).UTC().Format(time.RFC3339)},
	{"an empty payload", func(j *jobs.Request) { j.Payload = json.RawMessage{} }, "payload", "valid JSON"},
	{"a payload that is no JSON", func(j *jobs.Request) { j.Payload = json.RawMessage(`{a: 1}`) }, "payload", "valid JSON"},
	{"two payloads", func(j *jobs.Request) { j.Payload = json.RawMessage(`{} {}`) }, "payload", "valid JSON"},
	{"a long payload", func(j *jobs.Request) {
		j.Payload = json.RawMessage(`"` + strings.Repeat("x", defaults.MaxPayload) + `"`)
	}, "payload", "at most 65536 bytes"},
	{"bytes in the payload", func(j *jobs.Request) { j.Payload = json.RawMessage("\"\xff\"") }, "payload", "UTF-8"},
	{"NUL in the payload", func(j *jobs.Request) { j.Payload = json.RawMessage(`{"a": "x\u0000"}`) }, "payload", `\u0000`},
	{"NUL in a name of the payload", func(j *jobs.Request) { j.Payload = json.RawMessage(`{"\u0000": 1}`) }, "payload", `\u0000`},
	{"NUL after a backslash", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\\\u0000"`) }, "payload", `\u0000`},
	{"a high surrogate alone", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\uD83D"`) }, "payload", "surrogate"},
	{"a high surrogate and text", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\uD83Dx\uDE00"`) }, "payload", "surrogate"},
	{"a high surrogate and an escape", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\uD83D\n"`) }, "payload", "surrogate"},
	{"a high surrogate twice", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\ud83d\ud83d\ude00"`) }, "payload", "surrogate"},
	{"a high surrogate in another string", func(j *jobs.Request) { j.Payload = json.RawMessage(`["\ud83d","\ude00"]`) }, "payload", "surrogate"},
	{"a low surrogate alone", func(j *jobs.Request) { j.Payload = json.RawMessage(`"\uDE00"`) }, "payload", "surrogate"},
	{"a number too big", func(j *jobs.Request) { j.Payload = json.RawMessage(`{"a": 1e200000}`) }, "payload", "number"},
	{"a number too small", func(j *jobs.Request) { j.Payload = json.RawMessage(`[1, -1.5E-20000]`) }, "payload", "number"},
	{"a number too long", func(j *jobs.Request) { j.Payload = json.RawMessage(`0.` + strings.Repeat("1", 20000)) }, "payload", "number"},
	{"a payload that is long as PostgreSQL writes it", func(j *jobs.Request) {
		j.Payload = json.RawMessage(`[1e40000, -1.5e40000]`)
	}, "payload", "at most 65536 bytes with every digit of its numbers, is 80006"},
	{"a payload nested too deep", func(j *jobs.Request) {
		j.Payload = json.RawMessage(strings.Repeat(`[`, 5001) + strings.Repeat("]", 5001))
	}, "payload", "at most 5000 levels"},
	{"a window beyond 9999", func(j *jobs.Request) {
		j.CheckAt = grid.Max().Add(-time.Hour)
		j.Within = 2 * time.Hour
	}, "check_at", "9999-12-31"},
}

func TestABadJobIsRefusedByFieldAndRule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, test := range badRequests {
		job := check("1", slot(1))
		test.change(&job)
		_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job)
		var field *jobs.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := fieldErrors(err); len(got) != 1 || !strings.Contains(got[test.field], test.rule) {
			t.Errorf("%s: %v, want %s: %s", test.name, got, test.field, test.rule)
		}
		if text := err.Error(); !strings.Contains(text, test.field+": ") {
			t.Errorf("%s: %q does not name the field", test.name, text)
		}
	}
	if n := len(w.waiting()); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestABadJobIsRefusedForEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), jobs.Request{GroupKey: "\x00", Payload: json.RawMessage("no")})
	if got := fieldErrors(err); len(got) != 6 {
		t.Errorf("%d fields: %v", len(got), got)
	}
}

func TestABulkCallListsEveryBadRowAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := []jobs.Request{check("good", slot(1))}
	for _, test := range badRequests {
		job := check("1", slot(1))
		test.change(&job)
		list = append(list, job)
	}
	list = append(list, check("good too", slot(1)))
	_, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, jobs.Replace)
	bulk, ok := errors.AsType[*jobs.BulkError](err)
	if !ok || len(bulk.Requests) != len(badRequests) {
		t.Fatalf("%v", err)
	}
	for i, bad := range bulk.Requests {
		if bad.Index != i+1 || !strings.Contains(fieldErrors(bad.Err)[badRequests[i].field], badRequests[i].rule) {
			t.Errorf("request %d: %v", bad.Index, bad.Err)
		}
	}
	var field *jobs.FieldError
	if !errors.As(err, &field) || !strings.Contains(err.Error(), "\nrequest 1: job_exec: must not be empty") || !strings.Contains(err.Error(), fmt.Sprintf("and %d more", len(badRequests)-20)) {
		t.Errorf("%v", err)
	}
	if n := len(w.waiting()); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestWhatIsJustWithinTheRulesIsStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, change := range map[string]func(*jobs.Request){
		"the longest names": func(j *jobs.Request) {
			j.JobExec, j.EntityName = strings.Repeat("x", 200), strings.Repeat("ä", 100)
			j.ItemKey, j.GroupKey = strings.Repeat("\U0001F600", 125), strings.Repeat("g", 500)
		},
		"the horizon": func(j *jobs.Request) { j.CheckAt = grid.Default.Floor(now.Add(jobs.DefaultHorizon)) },
		"the longest payload": func(j *jobs.Request) {
			j.Payload = json.RawMessage(`"` + strings.Repeat("x", defaults.MaxPayload-2) + `"`)
		},
		"a surrogate pair":    func(j *jobs.Request) { j.Payload = json.RawMessage(`"\uD83D\uDE00\ud83d\ude00"`) },
		"no escape of NUL":    func(j *jobs.Request) { j.Payload = json.RawMessage(`"\\u0000 \\ud800"`) },
		"the first character": func(j *jobs.Request) { j.Payload = json.RawMessage(`"\u0001\uFFFF\uE000"`) },
		"null":                func(j *jobs.Request) { j.Payload = json.RawMessage(`null`) },
		"numbers": func(j *jobs.Request) {
			j.Payload = json.RawMessage(`[-0, 1E+5, 1e308, 0.1e-300, 12345678901234567890.5]`)
		},
		"digits that are text": func(j *jobs.Request) {
			j.Payload = json.RawMessage(`["1e999999", "` + strings.Repeat("9", 3000) + `", "\"1e999999"]`)
		},
		"a deep one": func(j *jobs.Request) {
			j.Payload = json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
		},
		"a name twice":            func(j *jobs.Request) { j.Payload = json.RawMessage(`{"a": 1, "a": 2}`) },
		"names with odd contents": func(j *jobs.Request) { j.EntityName, j.JobExec = "a\tb\n\u2028", `";--` },
	} {
		job := check(name, slot(1))
		change(&job)
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job, jobs.Reject); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		job.EntityKey += " in bulk"
		if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{job}, jobs.Reject); err != nil {
			t.Errorf("%s in bulk: %v", name, err)
		}
	}
	for _, job := range w.waiting() {
		if job.Payload != nil && !json.Valid(job.Payload) {
			t.Errorf("%s: read back %.100s", job.EntityKey, job.Payload)
		}
	}
}

func TestAChangeOfABadKeyOrTimeIsRefusedByFieldAndRule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bad := jobs.Key{JobExec: "", EntityName: "a\x00", EntityKey: strings.Repeat("x", 501), ItemKey: "\xff"}
	wantKey := []string{"job_exec", "entity_name", "entity_key", "item_key"}
	far := now.Add(jobs.DefaultHorizon + time.Hour)
	for name, test := range map[string]struct {
		call func() error
		want []string
	}{
		"Cancel":       {func() error { _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), bad); return err }, wantKey},
		"CancelEntity": {func() error { _, err := w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "a\x00", ""); return err }, []string{"entity_name", "entity_key"}},
		"Reschedule": {func() error {
			_, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), bad, slot(1))
			return err
		}, wantKey},
		"Reschedule to never": {func() error {
			_, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), time.Time{})
			return err
		}, []string{"check_at"}},
		"Reschedule far away": {func() error {
			_, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), far)
			return err
		}, []string{"check_at"}},
		"PushBack": {func() error {
			_, _, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), bad, slot(1), 0)
			return err
		}, wantKey},
		"PushBack far away": {func() error {
			_, _, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), far, 0)
			return err
		}, []string{"check_at"}},
		"PushBack with a bad maximum wait": {func() error {
			_, _, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(1), -1)
			return err
		}, []string{"max_wait"}},
		"enqueue with a bad maximum wait": {func() error {
			_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(1)), jobs.PushBack(-time.Hour))
			return err
		}, []string{"max_wait"}},
		"bulk with a bad maximum wait": {func() error {
			_, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("1", slot(1))}, jobs.PushBack(-time.Hour))
			return err
		}, []string{"max_wait"}},
	} {
		got := fieldErrors(test.call())
		if len(got) != len(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		for _, field := range test.want {
			if got[field] == "" {
				t.Errorf("%s: %s is not named: %v", name, field, got)
			}
		}
	}
}

func TestTheLimitsAreConfigurable(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *jobs.Config) { c.Horizon, c.MaxPayload = time.Hour, 10 })
	job := check("1", now.Add(2*time.Hour))
	job.Payload = json.RawMessage(`"12345678901"`)
	_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job)
	if got := fieldErrors(err); !strings.Contains(got["check_at"], "1h from now") || !strings.Contains(got["payload"], "10 bytes, is 13") {
		t.Error(got)
	}
}

// What the client takes the database takes, and the other way round, but for the limit of the client's own.
func TestTheClientHasTheDatabasesRuleForNumbers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{MaxPayload: 1 << 20, Horizon: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	for i, number := range []string{
		"1e1001", "-1e131071", "9.9e131071", "1e131072", "0.01e131073", "0.01e131074", "10e131071", "0e140000", "0.0e-16382", "0.0e-16383", "1e-16383", "1e-16384",
		"1.50e1", "-0", "123456789.987654321e-4", "0." + strings.Repeat("0", 16382) + "1", "0." + strings.Repeat("0", 16383) + "1", strings.Repeat("7", 1500), "1e999999999999",
	} {
		key := fmt.Sprint(i)
		_, bySQL := w.db.ExecContext(t.Context(), `select prescient.enqueue('remind', 'sql', $1, check_at => '2030-03-01', payload => $2)`, key, number)
		job := check(key, slot(1))
		job.Payload = json.RawMessage(number)
		_, byClient := client.Enqueue(t.Context(), jobs.OwnTx(w.db), job, jobs.Keep)
		if field := new(jobs.FieldError); (bySQL == nil) != (byClient == nil) || byClient != nil && !errors.As(byClient, &field) {
			t.Errorf("%.20s: by SQL %v, by the client %v", number, bySQL, byClient)
		}
	}
}
