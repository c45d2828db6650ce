package scheduleapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

const (
	// bulkRows and bulkBytes bound the changes of one transaction.
	bulkRows  = 1000
	bulkBytes = 4 << 20
	// maxChanges bounds the changes of a request. If all are wrong, the server makes them one by
	// one, which takes a minute.
	maxChanges = 10_000
	// bulkTime bounds the time to send a bulk request and to read its answer.
	bulkTime = 30 * time.Second
	// maxFailures bounds the failed changes that the answer lists.
	maxFailures = 1000
)

// bulkRequest is the body of a bulk request.
type bulkRequest struct {
	Changes []bulkChange `json:"changes" required:"changes"`
}

// bulkChange is one change of a bulk request.
type bulkChange struct {
	Action   schedule.Action `json:"action"   required:"action"`
	Schedule changedSchedule `json:"schedule" required:"schedule"`
	// The version to update or delete. Defaults to any version.
	Version int `json:"version"`
}

// The whole schedule; for a deletion its id.
type changedSchedule struct {
	body `required:"id"`
}

// bulkResult is the answer to a bulk request.
type bulkResult struct {
	Done   int64         `json:"done"`
	Failed int64         `json:"failed"`
	Errors []bulkFailure `json:"errors"` // The first 1000 failed changes.
}

// bulkFailure is a change that was not made.
type bulkFailure struct {
	Index int64  `json:"index"` // The index in the list of changes, from 0.
	ID    string `json:"id"`
	*web.Problem
}

// bulk is a request that is being read. It holds no transaction while it waits for the client.
type bulk struct {
	*api
	r       *http.Request
	extend  func() // gives the client time for more
	read    int64  // changes so far
	size    int    // of those that wait, in bytes
	waiting []waiting
	ids     map[string]bool // of those that wait
	result  bulkResult
}

// waiting is a change that is still to be made.
type waiting struct {
	index int64
	schedule.Change
}

// changeMany makes many changes, as they come.
func (a *api) changeMany(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := web.CheckMedia(r); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	b := &bulk{api: a, r: r, ids: map[string]bool{}, result: bulkResult{Errors: []bulkFailure{}}, extend: func() {
		by := elapsed.Now().Add(bulkTime)
		// an error means that there are no deadlines to extend
		_ = errors.Join(control.SetReadDeadline(by), control.SetWriteDeadline(by))
	}}
	failed := b.readAll()
	if err := b.flush(); err != nil {
		failed = err // the client sends the changes again that cannot be read
	}
	if failed != nil {
		return nil, b.explain(failed)
	}
	b.keepFirst()
	return b.result, nil
}

// explain says what was made before a request failed, because the client would otherwise not know it.
func (b *bulk) explain(failed error) error {
	p := ProblemOf(failed)
	if first, ok := errors.AsType[*unmadeError](failed); ok {
		p.Detail = fmt.Sprintf("%s; of the changes so far %d were made and %d failed. "+
			"Send change %d and those after it again", p.Detail, b.result.Done, b.result.Failed, first.index)
	} else {
		p.Detail = fmt.Sprintf("change %d: %s; of the changes before it %d were made and %d failed", b.read, p.Detail,
			b.result.Done, b.result.Failed)
	}
	return errors.Join(p, failed) // the latter for the log
}

// unmadeError is a failure of the server to make changes. Those before index are made or failed.
type unmadeError struct {
	index int64
	error
}

func (e *unmadeError) Unwrap() error { return e.error }

// readAll reads the changes, and makes most of them.
func (b *bulk) readAll() error {
	b.extend()
	body := &budget{Reader: b.r.Body, most: b.MaxBody, left: b.MaxBody}
	dec := json.NewDecoder(body)
	if err := expect(dec, json.Delim('{'), "changes", json.Delim('[')); err != nil {
		return err
	}
	for dec.More() {
		if b.read == maxChanges {
			return web.NewProblem(http.StatusRequestEntityTooLarge,
				fmt.Sprintf("a request has at most %d changes: send the others in further requests", maxChanges))
		}
		body.left = body.most
		var text json.RawMessage
		err := dec.Decode(&text)
		if err == nil && int64(len(text)) > b.MaxBody { // it began in what was read before
			err = &http.MaxBytesError{Limit: b.MaxBody}
		}
		if err != nil {
			return web.Unreadable(err)
		}
		if err := b.add(text); err != nil {
			return err
		}
	}
	if err := expect(dec, json.Delim(']'), json.Delim('}')); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return web.NewProblem(http.StatusBadRequest, "the body: it goes on after the first value")
	}
	return nil
}

// expect reads tokens, which must be these.
func expect(dec *json.Decoder, tokens ...json.Token) error {
	for _, want := range tokens {
		got, err := dec.Token()
		if err != nil {
			return web.Unreadable(err)
		}
		if got != want {
			return web.NewProblem(http.StatusBadRequest,
				fmt.Sprintf(`the body: want {"changes": [...]}, and found %v instead of %v`, got, want))
		}
	}
	return nil
}

// add takes a change, and makes those that wait when they are many. One of an id that waits must
// come after that.
func (b *bulk) add(text json.RawMessage) error {
	index := b.read
	b.read++
	var c bulkChange
	if err := web.Parse(text, &c); err != nil {
		b.fail(index, c.Schedule.ID, err)
		return nil
	}
	if len(b.waiting) == bulkRows || b.size+len(text) > bulkBytes || b.ids[c.Schedule.ID] {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.waiting = append(b.waiting, waiting{index, schedule.Change{
		Action: c.Action, Spec: c.Schedule.spec(), Version: c.Version,
	}})
	b.ids[c.Schedule.ID] = true
	b.size += len(text)
	return nil
}

// flush makes the changes that wait.
func (b *bulk) flush() error {
	err := b.make(b.waiting)
	b.waiting, b.size = b.waiting[:0], 0
	clear(b.ids)
	b.extend()
	return err
}

// make makes changes in one transaction. If a change is wrong, it makes each half separately, until
// the wrong one is alone. It returns an error only for a failure of the server.
func (b *bulk) make(changes []waiting) error {
	if len(changes) == 0 {
		return nil
	}
	all := seq.Map(changes, func(c waiting) schedule.Change { return c.Change })
	err := b.changing(b.r, func(tx jobs.DB) error { return b.Store.ChangeAll(b.r.Context(), tx, all) })
	switch {
	case err == nil:
		b.result.Done += int64(len(changes))
		for _, c := range changes {
			b.logChange(b.r, c.Action, c.Spec.ID, 0)
		}
		return nil
	case ProblemOf(err).Status >= http.StatusInternalServerError:
		return &unmadeError{changes[0].index, err}
	case len(changes) == 1:
		b.fail(changes[0].index, changes[0].Spec.ID, err)
		return nil
	}
	half := len(changes) / 2
	if err := b.make(changes[:half]); err != nil {
		return err
	}
	return b.make(changes[half:])
}

func (b *bulk) fail(index int64, id string, err error) {
	b.result.Failed++
	if b.result.Errors = append(b.result.Errors,
		bulkFailure{index, id, ProblemOf(err)}); len(b.result.Errors) == 2*maxFailures {
		b.keepFirst()
	}
}

// keepFirst keeps the failures that are told. One that cannot be read fails before those that wait.
func (b *bulk) keepFirst() {
	slices.SortFunc(b.result.Errors, func(x, y bulkFailure) int { return cmp.Compare(x.Index, y.Index) })
	b.result.Errors = b.result.Errors[:min(len(b.result.Errors), maxFailures)]
}

// budget bounds what is read for one change, whatever the size of the whole request.
type budget struct {
	io.Reader
	most, left int64
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &http.MaxBytesError{Limit: b.most}
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
