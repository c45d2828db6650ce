package httpjob

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
)

// asked are the rows of every request here.
var asked = []jobs.FutureJob{{ID: 1}, {ID: 2}, {ID: 3}}

// shown is a list of results as texts: "done", a time, or "error: ...".
func shown(results []jobs.Result) []string {
	list := make([]string, len(results))
	for i, r := range results {
		switch {
		case r.Err != nil:
			list[i] = "error: " + r.Err.Error()
		case r.Next != nil:
			list[i] = r.Next.UTC().Format(time.RFC3339Nano)
		default:
			list[i] = "done"
		}
	}
	return list
}

func TestEachRowGetsWhatTheAnswerSaysAboutIt(t *testing.T) {
	t.Parallel()
	const missing = "error: the answer has no result for the row"
	for name, test := range map[string]struct {
		body string
		want []string
	}{
		"in another order": {
			`{"results": [{"id": 3, "error": "down"}, {"id": 1, "next": "2030-03-01T13:05:00+01:00"}, {"id": 2, "next": null}]}`,
			[]string{"2030-03-01T12:05:00Z", "done", "error: down"},
		},
		"without next":      {`{"results":[{"id":1},{"id":2,"error":null},{"id":3,"next":null,"error":null}]}`, []string{"done", "done", "done"}},
		"a row is missing":  {`{"results":[{"id":1},{"id":3}]}`, []string{"done", missing, "done"}},
		"no results":        {`{"results":[]}`, []string{missing, missing, missing}},
		"a row twice":       {`{"results":[{"id":1},{"id":2},{"id":3},{"id":2}]}`, []string{"done", "error: the answer has more than one result for the row", "done"}},
		"both":              {`{"results":[{"id":1},{"id":2},{"id":3,"next":"2030-03-01T13:05:00Z","error":"down"}]}`, []string{"done", "done", `error: the answer has both next "2030-03-01T13:05:00Z" and error "down" for the row, want one`}},
		"an empty error":    {`{"results":[{"id":1},{"id":2},{"id":3,"error":""}]}`, []string{"done", "done", "error: the service reports an error without a text"}},
		"a time of no zone": {`{"results":[{"id":1},{"id":2},{"id":3,"next":"2030-03-01T13:05:00"}]}`, []string{"done", "done", `error: the answer has next "2030-03-01T13:05:00" for the row, want an instant such as 2026-03-01T13:15:00Z, or null`}},
		"an empty time":     {`{"results":[{"id":1},{"id":2},{"id":3,"next":""}]}`, []string{"done", "done", `error: the answer has next "" for the row, want an instant such as 2026-03-01T13:15:00Z, or null`}},
		"space around it":   {" {\"results\":[{\"id\":1},{\"id\":2},{\"id\":3}]}\n", []string{"done", "done", "done"}},
	} {
		results, err := decode([]byte(test.body), asked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(test.want, shown(results)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestAnAnswerThatIsNoneNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:       "EOF",
		`<html>`: "invalid character '<'",
		`{"results":[{"id":1,"next":"2030-03-01T13:05:00Z","next":null}]}`: "results[0] has next twice",
		`{"results":[{"id":1,"next":"2030-03-01T13:05:00Z","Next":null}]}`: `results[0] has the unknown field "Next": want "next"`,
		`{"results":[{"id":1,"error":"x","Error":null}]}`:                  `results[0] has the unknown field "Error": want "error"`,
		`{"Results":[]}`:                          `it has the unknown field "Results": want "results"`,
		`{"results":[],"results":[{"id":1}]}`:     "it has results twice",
		`[]`:                                      "cannot unmarshal array",
		`{}`:                                      "it has no results",
		`null`:                                    "it has no results",
		`{"results": null}`:                       "it has no results",
		`{"result": []}`:                          `unknown field "result"`,
		`{"results": {}}`:                         "cannot unmarshal object",
		`{"results": []} []`:                      "it goes on after the first value",
		`{"results": []}}`:                        "it goes on after the first value",
		`{"results": [{}]}`:                       "result 1 has no id",
		`{"results": [null]}`:                     "result 1 has no id",
		`{"results": [{"id":`:                     "unexpected EOF",
		`{"results": [{"id": 1}, {"id": 4}]}`:     "result 2 is for id 4, which was not asked for",
		`{"results": [{"id": "1"}]}`:              "results.id of type int64",
		`{"results": [{"id": 1.5}]}`:              "results.id of type int64",
		`{"results": [{"id": 1, "next": 5}]}`:     "results.next of type string",
		`{"results": [{"id": 1, "error": true}]}`: "results.error of type strictjson.Text",
		`{"results": [{"id": 1, "nxt": "2030-03-01"}]}`:  `unknown field "nxt"`,
		`{"results": [{"id": 99999999999999999999999}]}`: "int64",
	} {
		results, err := decode([]byte(body), asked)
		if err == nil || !strings.Contains(err.Error(), want) || results != nil {
			t.Errorf("%s: %v, %v; want an error with %q", body, results, err, want)
		}
	}
}

func FuzzNoRowIsFinishedUnlessTheAnswerSaysSo(f *testing.F) {
	f.Add([]byte(`{"results": [{"id": 3, "error": "down"}, {"id": 1, "next": "2030-03-01T13:05:00+01:00"}, {"id": 2, "next": null}]}`))
	f.Add([]byte(`{"results": [{"id": 2}, {"id": 2}]}`))
	f.Add([]byte(`{"results": [{"id": 1, "error": ""}, null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		results, err := decode(body, asked)
		if err != nil {
			if results != nil {
				t.Errorf("results beside the error %v", err)
			}
			return
		}
		if len(results) != len(asked) {
			t.Fatalf("%d results for %d rows", len(results), len(asked))
		}
		if !json.Valid(body) {
			t.Error("what is not JSON was accepted")
		}
		for i, r := range results {
			if r.Err == nil && !strings.Contains(string(body), fmt.Sprint(asked[i].ID)) {
				t.Errorf("row %d has the result %v, and the answer does not name it", asked[i].ID, r)
			}
			if r.Next != nil && r.Next.IsZero() && !strings.Contains(string(body), "0001-01-01") {
				t.Errorf("row %d has a time from nowhere", asked[i].ID)
			}
		}
	})
}
