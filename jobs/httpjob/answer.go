package httpjob

import (
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/jobs"
)

// result is the result of one row in an answer.
type result struct {
	ID    *int64           `json:"id"`
	Next  *string          `json:"next"`
	Error *strictjson.Text `json:"error"`
}

// decode reads the answer to a request: a result for each row, in the order of rows. Its error
// belongs to all rows.
func decode(body []byte, rows []jobs.FutureJob) ([]jobs.Result, error) {
	said, err := parse(body)
	if err != nil {
		return nil, err
	}
	index := make(map[int64]int, len(rows))
	results := make([]jobs.Result, len(rows))
	for i, row := range rows {
		index[row.ID] = i
		results[i].Err = errors.New("the answer has no result for the row")
	}
	seen := make(map[int64]bool, len(rows))
	for n, r := range said {
		if r.ID == nil {
			return nil, fmt.Errorf("result %d has no id", n+1)
		}
		i, asked := index[*r.ID]
		switch {
		case !asked:
			return nil, fmt.Errorf("result %d is for id %d, which was not asked for", n+1, *r.ID)
		case seen[*r.ID]:
			results[i] = jobs.Result{Err: errors.New("the answer has more than one result for the row")}
		default:
			results[i] = r.toResult()
		}
		seen[*r.ID] = true
	}
	return results, nil
}

// parse reads the results of an answer. An unknown or repeated field is an error: if it were
// ignored, a misspelt "next" would finish a row.
func parse(body []byte) ([]result, error) {
	var answer struct {
		Results *[]result `json:"results"`
	}
	if err := strictjson.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf(`not JSON of the form {"results": [{"id": 1, "next": null}]}: %w`, err)
	}
	if answer.Results == nil {
		return nil, errors.New("it has no results")
	}
	return *answer.Results, nil
}

// toResult returns the jobs.Result of a row. An error without a text still counts, because many
// exceptions have an empty text.
func (r result) toResult() jobs.Result {
	switch {
	case r.Error != nil && r.Next != nil:
		return jobs.Result{Err: fmt.Errorf("the answer has both next %q and error %q for the row, want one", *r.Next,
			*r.Error)}
	case r.Error != nil && *r.Error == "":
		return jobs.Result{Err: errors.New("the service reports an error without a text")}
	case r.Error != nil:
		return jobs.Result{Err: errors.New(string(*r.Error))}
	case r.Next == nil:
		return jobs.Result{}
	}
	next, err := time.Parse(time.RFC3339, *r.Next)
	if err != nil {
		return jobs.Result{
			Err: fmt.Errorf("the answer has next %q for the row, want an instant such as 2026-03-01T13:15:00Z, or null",
				*r.Next),
		}
	}
	return jobs.Result{Next: &next}
}
