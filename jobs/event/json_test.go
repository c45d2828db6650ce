package event_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/event"
)

// events are valid ones of every kind.
func events() map[string]event.Event {
	all := map[string]event.Event{
		"everything":       reminder(),
		"nothing optional": {ID: "1", Source: "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", Type: "t"},
	}
	for name, change := range map[string]func(*event.Event){
		"data null":             func(e *event.Event) { e.Data = json.RawMessage(`null`) },
		"data false":            func(e *event.Event) { e.Data = json.RawMessage(`false`) },
		"data text":             func(e *event.Event) { e.Data = json.RawMessage(`"a line\nand <more> \u2028"`) },
		"a number of 30 digits": func(e *event.Event) { e.Data = json.RawMessage(`[123456789012345678901234567890, 1e400]`) },
		"data on many lines":    func(e *event.Event) { e.Data = json.RawMessage("{\n\t\"a\":\r\n [ ]\n}") },
		"no data":               func(e *event.Event) { e.Data = nil },
		"no subject":            func(e *event.Event) { e.Subject = "" },
		"a subject in Greek":    func(e *event.Event) { e.Subject = "παραγγελία \U0001F4E6 \"42\" <&>" },
		"a time in New York":    func(e *event.Event) { e.Time = at.In(time.FixedZone("", -5*3600)) },
		"a nanosecond":          func(e *event.Event) { e.PublishedAt = at.Add(1) },
		"the year 9999":         func(e *event.Event) { e.Time = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) },
		"long":                  func(e *event.Event) { e.ID, e.Subject = strings.Repeat("x", 1000), strings.Repeat("y", 1000) },
		"a source with a query": func(e *event.Event) { e.Source = "https://example.com/a%20b?c=d#e" },
	} {
		e := reminder()
		change(&e)
		all[name] = e
	}
	return all
}

func TestAnEventIsOneLineOfCloudEventsJSON(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"everything": `{"specversion":"1.0","id":"reminder-1772357400","source":"/shop","type":"com.example.reminder","subject":"reminder",` +
			`"time":"2026-03-01T09:30:00Z","publishedat":"2026-03-01T09:30:02.123456Z","partitionkey":"reminder",` +
			`"datacontenttype":"application/json","data":{"order":42}}`,
		"a time in New York": `{"specversion":"1.0","id":"reminder-1772357400","source":"/shop","type":"com.example.reminder","subject":"reminder",` +
			`"time":"2026-03-01T09:30:00Z","publishedat":"2026-03-01T09:30:02.123456Z","partitionkey":"reminder",` +
			`"datacontenttype":"application/json","data":{"order":42}}`,
		"nothing optional": `{"specversion":"1.0","id":"1","source":"urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66","type":"t"}`,
	} {
		if got, err := json.Marshal(events()[name]); err != nil || string(got) != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
	for name, e := range events() {
		if got, err := json.Marshal(e); err != nil || bytes.ContainsAny(got, "\r\n") {
			t.Errorf("%s: %v, %s", name, err, got)
		}
	}
}

// Texts of all kinds come back as they were.
func TestEveryTextThatAnEventMayHaveIsWrittenAsJSON(t *testing.T) {
	t.Parallel()
	for r := range rune(0x3000) {
		e := event.Event{ID: "a" + string(r) + `"\` + string(r), Source: "/", Type: "t"}
		if e.Validate() != nil {
			continue
		}
		text, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ ID string }
		if err := json.Unmarshal(text, &got); err != nil || got.ID != e.ID {
			t.Fatalf("%q: %v, %s", e.ID, err, text)
		}
	}
}

// An event that is printed for people has < unescaped.
func TestAnEventEscapesNoMoreThanWhoeverWritesIt(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(events()["data text"]); err != nil || !strings.Contains(text.String(), "<more>") {
		t.Errorf("%v, %s", err, &text)
	}
}

func TestWhatIsWrittenIsReadAsItWas(t *testing.T) {
	t.Parallel()
	for name, want := range events() {
		got := decode(t, encode(t, want))
		if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheOfficialSDKReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	for name, e := range events() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got sdk.Event
			if err := json.Unmarshal(encode(t, e), &got); err != nil {
				t.Fatal(err)
			}
			if err := got.Validate(); err != nil {
				t.Fatal(err)
			}
			generated := time.Time{}
			if text, ok := got.Extensions()["publishedat"].(string); ok {
				var err error
				if generated, err = time.Parse(time.RFC3339, text); err != nil {
					t.Error(err)
				}
			}
			read := event.Event{
				ID: got.ID(), Source: got.Source(), Type: got.Type(), Subject: got.Subject(),
				Time: got.Time(), PublishedAt: generated, Data: got.Data(),
			}
			if diff := cmp.Diff(e, read, cmp.Comparer(sameJSON)); diff != "" {
				t.Error(diff)
			}
			if key, _ := got.Extensions()["partitionkey"].(string); key != e.Subject {
				t.Errorf("partitionkey %q", key)
			}
			if e.Data != nil && got.DataContentType() != "application/json" {
				t.Errorf("datacontenttype %q", got.DataContentType())
			}
		})
	}
}

func TestWhatTheOfficialSDKWritesIsRead(t *testing.T) {
	t.Parallel()
	for name, want := range events() {
		e := sdk.New("1.0")
		e.SetID(want.ID)
		e.SetSource(want.Source)
		e.SetType(want.Type)
		e.SetTime(want.Time)
		e.SetExtension("publishedat", want.PublishedAt)
		e.SetExtension("another", 7)
		if want.Subject != "" {
			e.SetSubject(want.Subject)
		}
		if want.Data != nil {
			if err := e.SetData("application/json", want.Data); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := decode(t, text)
		if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatIsNoCloudEventWithJSONIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:    "unexpected end",
		`[]`:   "read a CloudEvent",
		`{}`:   `specversion: must be "1.0", is ""`,
		`null`: `specversion: must be "1.0", is ""`,
		`{"specversion":"0.3","id":"1","source":"/","type":"t"}`:                                                    `specversion: must be "1.0", is "0.3"`,
		`{"specversion":"1.0","id":1,"source":"/","type":"t"}`:                                                      "id of type string",
		`{"specversion":"1.0","id":"1","source":"/","type":"t","time":"today"}`:                                     `"today"`,
		`{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"AAAA"}`:                               "data_base64: only JSON",
		`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"text/xml","data":"<a/>"}`:         "datacontenttype: only JSON",
		`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"application/jsonlines","data":1}`: "datacontenttype: only JSON",
	} {
		var e event.Event
		if err := json.Unmarshal([]byte(text), &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAnAttributeThatIsNullIsNotSet(t *testing.T) {
	t.Parallel()
	text := `{"specversion":"1.0","id":"1","source":"/","type":"t","subject":null,"time":null,"publishedat":null,` +
		`"datacontenttype":"application/vnd.shop+json; charset=utf-8","data_base64":null,"data":null,"unknown":{"a":1}}`
	want := event.Event{ID: "1", Source: "/", Type: "t", Data: json.RawMessage("null")}
	if diff := cmp.Diff(want, decode(t, []byte(text))); diff != "" {
		t.Error(diff)
	}
}

func TestATimeIsReadAsUTC(t *testing.T) {
	t.Parallel()
	e := decode(t, []byte(`{"specversion":"1.0","id":"1","source":"/","type":"t","time":"2026-03-01T04:30:00-05:00","publishedat":"2026-03-01T15:00:02.123456+05:30"}`))
	if e.Time != at || e.PublishedAt != made {
		t.Errorf("%s, %s", e.Time, e.PublishedAt)
	}
}

// FuzzDecode reads anything: it never panics, and what is a valid event is written so that it is
// read as the same.
func FuzzDecode(f *testing.F) {
	for _, e := range events() {
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"specversion":"1.0","id":"\ud800","source":"%zz","type":"t","time":"0000-01-01T00:00:00+23:59","data":{"a":1,"a":"\u0000"}}`))
	f.Add([]byte(`{"SPECVERSION":"1.0","id":"1","ID":"2","source":"//","type":"t","time":"0001-01-01T00:00:00Z","data":1E-9}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var first event.Event
		if json.Unmarshal(text, &first) != nil || first.Validate() != nil {
			return
		}
		again := encode(t, first)
		second := decode(t, again)
		if err := second.Validate(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmp.Comparer(sameJSON)); diff != "" {
			t.Fatal(diff)
		}
		if third := encode(t, second); !bytes.Equal(again, third) {
			t.Fatalf("%s\nbecame %s", again, third)
		}
		var other sdk.Event
		if err := json.Unmarshal(again, &other); err != nil {
			t.Fatalf("the SDK does not read %s: %v", again, err)
		}
		if err := other.Validate(); err != nil {
			t.Fatalf("the SDK does not want %s: %v", again, err)
		}
	})
}

func encode(t *testing.T, e event.Event) []byte {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t *testing.T, text []byte) event.Event {
	t.Helper()
	var e event.Event
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// sameJSON compares without regard to white space and to what is escaped.
func sameJSON(a, b json.RawMessage) bool {
	return (a == nil) == (b == nil) && bytes.Equal(canonical(a), canonical(b))
}

func canonical(text json.RawMessage) []byte {
	var short, escaped bytes.Buffer
	if text == nil || json.Compact(&short, text) != nil {
		return text
	}
	json.HTMLEscape(&escaped, short.Bytes())
	return escaped.Bytes()
}
