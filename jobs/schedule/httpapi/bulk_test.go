package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// result is what became of a bulk request: how many, and the index, id and status of those that
// failed.
func result(t *testing.T, v map[string]any) string {
	t.Helper()
	text := fmt.Sprint(v["done"], " done, ", v["failed"], " failed")
	for _, e := range v["errors"].([]any) {
		e := e.(map[string]any)
		text += fmt.Sprintf("; %v %v %v", e["index"], e["id"], e["status"])
	}
	return text
}

func (w *world) ids() string {
	w.t.Helper()
	var ids []string
	for _, s := range w.want(200, "GET", "/schedules?limit=200", "")["schedules"].([]any) {
		s := s.(map[string]any)
		ids = append(ids, fmt.Sprint(s["id"], " ", s["crontab"], " ", s["version"]))
	}
	return strings.Join(ids, ", ")
}

func TestManyChangesAreMadeAndWhatIsWrongFailsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, step := range []struct{ changes, want, ids string }{
		{`[]`, "0 done, 0 failed", ""},
		{
			`[{"action": "create", "schedule": {"id": "a", "crontab": "@daily", "payload": {"n": 1}}},
			  {"action": "create", "schedule": {"id": "b", "crontab": "@daily"}},
			  {"action": "create", "schedule": {"id": "c", "crontab": "@daily"}}]`,
			"3 done, 0 failed", "a @daily 1, b @daily 1, c @daily 1",
		},
		{
			`[{"action": "create", "schedule": {"id": "a", "crontab": "@hourly"}},
			  {"action": "update", "schedule": {"id": "b", "crontab": "@hourly"}, "version": 1},
			  {"action": "update", "schedule": {"id": "c", "crontab": "@hourly"}, "version": 2},
			  {"action": "delete", "schedule": {"id": "nobody"}},
			  {"action": "delete", "schedule": {"id": "c"}, "version": 7},
			  {"action": "rename", "schedule": {"id": "a"}},
			  {"action": "create", "schedule": {"id": "\u0000", "crontab": "@daily"}},
			  {"action": "create", "schedule": {"id": "d", "crontab": "often"}},
			  {"action": "create", "schedule": {"id": "e", "cron": "@daily"}},
			  {"action": "create", "schedule": {"id": 7}},
			  {"action": "create", "schedule": {"id": "f", "crontab": "@daily"}}]`,
			"2 done, 9 failed; 0 a 409; 2 c 412; 3 nobody 404; 4 c 412; 5 a 422; 6 \x00 422; 7 d 422; 8 e 400; 9  400",
			"a @daily 1, b @hourly 2, c @daily 1, f @daily 1",
		},
		{ // changes of one schedule are made in their order
			`[{"action": "delete", "schedule": {"id": "a"}},
			  {"action": "create", "schedule": {"id": "a", "crontab": "@weekly"}},
			  {"action": "update", "schedule": {"id": "a", "crontab": "@monthly"}},
			  {"action": "delete", "schedule": {"id": "c"}, "version": 1}]`,
			"4 done, 0 failed", "a @monthly 2, b @hourly 2, f @daily 1",
		},
	} {
		if got := result(t, w.want(200, "POST", "/schedule-changes", `{"changes": `+step.changes+`}`)); got != step.want {
			t.Errorf("%s\nbecame %s\nwant   %s", step.changes, got, step.want)
		}
		if got := w.ids(); got != step.ids {
			t.Errorf("left %s\nwant %s", got, step.ids)
		}
	}
	w.logsNoError()
}

func TestWhatWasMadeBeforeTheServerFailedIsCounted(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	// 1000 changes are made together, so those of the second transaction begin at 1000.
	for name, test := range map[string]struct {
		broken int    // the id of the schedule that is broken
		wrong  []int  // those that the server refuses, so that it divides the others
		rest   string // what follows the changes
		detail string
		made   int
	}{
		"in the first transaction": {700, nil, "]}", "of the changes so far 0 were made and 0 failed. Send change 0 and those after it again", 0},
		"in the last transaction":  {1100, nil, "]}", "of the changes so far 1000 were made and 0 failed. Send change 1000 and those after it again", 1000},
		"in a half":                {1199, []int{1000}, "]}", "of the changes so far 1099 were made and 1 failed. Send change 1100 and those after it again", 1099},
		"and the rest is broken":   {1100, nil, ",", "of the changes so far 1000 were made and 0 failed. Send change 1000 and those after it again", 1000},
	} {
		w := setup(t)
		w.db.MustExecContext(t.Context(), fmt.Sprintf(`
			create function fail() returns trigger language plpgsql as $$ begin raise exception 'broken'; end $$;
			create trigger fail before insert on prescient.schedule for each row when (new.id = 's%06d') execute function fail()`, test.broken))
		var changes []string
		for i := range 1200 {
			crontab := "@daily"
			if slices.Contains(test.wrong, i) {
				crontab = "often"
			}
			changes = append(changes, fmt.Sprintf(`{"action": "create", "schedule": {"id": "s%06d", "crontab": %q}}`, i, crontab))
		}
		v := w.want(500, "POST", "/schedule-changes", `{"changes": [`+strings.Join(changes, ",")+test.rest)
		if detail, _ := v["detail"].(string); !strings.Contains(detail, test.detail) {
			t.Errorf("%s: %q, want %q", name, detail, test.detail)
		}
		if n := w.count(); n != test.made {
			t.Errorf("%s: %d were made, want %d", name, n, test.made)
		}
	}
}

func TestWhatCameBeforeABrokenChangeIsMadeAndCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const good = `{"action": "create", "schedule": {"id": "a", "crontab": "@daily"}}`
	for _, test := range []struct {
		status       int
		body, detail string
	}{
		{400, `{"changes": [` + good + `, {"action": }`, "change 1: the body: invalid character '}' "},
		{400, `{"changes": [` + good + `,`, "change 1: the body: it ends too early: want a whole JSON value; of the changes before it 0 were made and 1 failed"},
		{400, `{"changes": [` + good + `]`, "1 failed"},
		{400, `{"changes": [` + good + `]}{}`, "goes on"},
		{400, `{"change": []}`, `found change instead of changes`},
		{400, `[]`, `want {"changes": [...]}`},
		{400, ``, "the body: it ends too early"},
		{413, `{"changes": [{"action": "` + strings.Repeat("x", 2<<20) + `"}]}`, "at most 1048576 bytes"},
	} {
		v := w.want(test.status, "POST", "/schedule-changes", test.body)
		if detail, _ := v["detail"].(string); !strings.Contains(detail, test.detail) {
			t.Errorf("%.80s: %q, want %q", test.body, detail, test.detail)
		}
	}
	if got := w.ids(); got != "a @daily 1" {
		t.Errorf("left %s", got)
	}
	cfg := w.config(w.db)
	cfg.MaxBulk = 100
	var err error
	if w.handler, err = httpapi.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.want(413, "POST", "/schedule-changes", `{"changes": [`+good+`, `+good+`, `+good+`]}`)
}

func TestEachChangeMayBeAsLongAsABodyHoweverLongTheyAreTogether(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var changes []string
	for i := range 4 {
		changes = append(changes, fmt.Sprintf(`{"action": "create", %s"schedule": {"id": "%d", "crontab": "@daily"}}`, strings.Repeat(" ", 900<<10), i))
	}
	v := w.want(200, "POST", "/schedule-changes", `{"changes": [`+strings.Join(changes, ",")+`]}`)
	if got := result(t, v); got != "4 done, 0 failed" {
		t.Error(got)
	}
}

func TestTheFirstOfTheChangesThatFailedAreTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	unreadable := strings.Repeat(`{"action": "create", "schedule": {"id": 7}},`, 1500)
	v := w.want(200, "POST", "/schedule-changes", `{"changes": [{"action": "delete", "schedule": {"id": "nobody"}}, `+strings.TrimSuffix(unreadable, ",")+`]}`)
	errs := v["errors"].([]any)
	if first := errs[0].(map[string]any); first["id"] != "nobody" || len(errs) != 1000 || v["failed"] != 1501.0 {
		t.Errorf("%v failed, of which %d are told; the first one is %v", v["failed"], len(errs), first)
	}
}

// A client that waits for what it has sent before it sends more would wait for ever for an API that
// reads all first.
func TestManyChangesAreMadeAsTheyCome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 3500
	reader, writer := io.Pipe()
	made := make(chan int, n)
	go func() {
		_, err := io.WriteString(writer, `{"changes": [`)
		for i := 0; i < n && err == nil; i++ {
			crontab := "@daily"
			if i%1700 == 1699 {
				crontab = "often"
			}
			if i%1000 == 500 { // what was read is in hand, but for a buffer
				made <- w.count()
			}
			_, err = fmt.Fprintf(writer, `{"action": "create", "schedule": {"id": "s%06d", "crontab": %q}}%s`, i, crontab, map[bool]string{true: "]}", false: ","}[i == n-1])
		}
		close(made)
		_ = writer.CloseWithError(err)
	}()
	var v map[string]any
	if err := json.Unmarshal(w.send("POST", "/schedule-changes", reader).Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("3498 done, 2 failed; 1699 s001699 422; 3399 s003399 422", result(t, v)); diff != "" {
		t.Error(diff)
	}
	var counts []int
	for c := range made {
		counts = append(counts, c)
	}
	if diff := cmp.Diff([]int{0, 1000, 1999}, counts); diff != "" {
		t.Errorf("made when so many were sent (-want +got):\n%s", diff)
	}
}

func (w *world) count() (n int) {
	if err := w.db.GetContext(w.t.Context(), &n, `select count(*) from prescient.schedule`); err != nil {
		w.t.Error(err)
	}
	return n
}

// One by one, as they are made when each is wrong, a million changes would take an hour.
func TestARequestHasABoundedNumberOfChanges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	changes := strings.Repeat(`{"action": "create", "schedule": {"id": 7}},`, 10_000)
	v := w.want(413, "POST", "/schedule-changes", `{"changes": [`+changes+`{"action": "create", "schedule": {"id": "a", "crontab": "@daily"}}]}`)
	const want = "a request has at most 10000 changes: send the others in further requests; of the changes before it 0 were made and 10000 failed"
	if detail, _ := v["detail"].(string); !strings.Contains(detail, want) {
		t.Errorf("%q, want %q", detail, want)
	}
	if w.count() != 0 {
		t.Error("a change beyond the bound was made")
	}
}
