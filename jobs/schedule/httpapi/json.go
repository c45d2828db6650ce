package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// body is schedule.Spec as JSON.
type body struct {
	ID       string           `json:"id"`
	Crontab  string           `json:"crontab"`
	Timezone string           `json:"timezone"`
	Payload  json.RawMessage  `json:"payload"`
	Deadline duration.Text    `json:"deadline"`
	Spread   duration.Text    `json:"spread"`
	Misfire  schedule.Misfire `json:"misfire"`
	Anchor   time.Time        `json:"anchor,omitzero"`
	Paused   bool             `json:"paused"`

	DeadlineFrom schedule.DeadlineFrom `json:"deadline_from,omitempty"`
	Start        time.Time             `json:"start,omitzero"`
	End          time.Time             `json:"end,omitzero"`
	MaxRuns      int                   `json:"max_runs,omitempty"`
	Exclude      []string              `json:"exclude,omitempty"`
}

func (b body) spec() schedule.Spec {
	return schedule.Spec{
		ID: b.ID, Crontab: b.Crontab, Timezone: b.Timezone, Payload: b.Payload, Deadline: time.Duration(b.Deadline),
		Spread: time.Duration(b.Spread), Misfire: b.Misfire, Anchor: b.Anchor, Paused: b.Paused,
		DeadlineFrom: b.DeadlineFrom, Start: b.Start, End: b.End, MaxRuns: b.MaxRuns, Exclude: b.Exclude,
	}
}

func newBody(s schedule.Spec) body {
	return body{
		ID: s.ID, Crontab: s.Crontab, Timezone: s.Timezone, Payload: s.Payload, Deadline: duration.Text(s.Deadline),
		Spread: duration.Text(s.Spread), Misfire: s.Misfire, Anchor: s.Anchor, Paused: s.Paused,
		DeadlineFrom: s.DeadlineFrom, Start: s.Start, End: s.End, MaxRuns: s.MaxRuns, Exclude: s.Exclude,
	}
}

// View is a schedule as JSON, in the answers of this API and of the command line.
type View struct {
	body
	State      schedule.State `json:"state"`
	Version    int            `json:"version"`
	Next       *time.Time     `json:"next"` // null unless active
	Slot       *time.Time     `json:"slot"`
	Last       time.Time      `json:"last,omitzero"`  // the instant that was published last
	Runs       int64          `json:"runs,omitempty"` // of max_runs
	Dropped    int64          `json:"dropped"`
	ErrorCount int            `json:"error_count"`
	LastError  string         `json:"last_error"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
}

// NewView returns the View of a schedule.
func NewView(s schedule.Schedule) View {
	v := View{
		body: newBody(s.Spec), State: s.State, Version: s.Version, Last: s.Last, Runs: s.Runs, Dropped: s.Dropped, ErrorCount: s.ErrorCount, LastError: s.LastError,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if s.State == schedule.Active {
		v.Next, v.Slot = &s.Next, &s.Slot
	}
	return v
}

// mergePatch is the media type of RFC 7396.
const mergePatch = "application/merge-patch+json"

// checkMedia refuses a body that is not JSON, or of one of other media types.
func checkMedia(r *http.Request, others ...string) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !slices.Contains(others, media) {
		return problem(http.StatusUnsupportedMediaType, "send the body as JSON, with the header Content-Type: application/json")
	}
	return nil
}

// decode reads the one JSON value of a request, which may be of other media types than application/json.
func decode(r *http.Request, v any, others ...string) error {
	if err := checkMedia(r, others...); err != nil {
		return err
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return unreadable(err)
	}
	return parse(bytes.NewReader(text), v)
}

// parse reads one JSON value.
func parse(text io.Reader, v any) error {
	dec := json.NewDecoder(text)
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil && !errors.Is(dec.Decode(new(json.RawMessage)), io.EOF) {
		err = errors.New("it goes on after the first value")
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

// unreadable is the problem of a body that cannot be read.
func unreadable(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body must be at most %d bytes", tooLarge.Limit))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, "the body did not come in time")
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s: it must not be of the JSON type %s", cmp.Or(e.Field, "the whole"), e.Value)
	}
	return problem(http.StatusBadRequest, "the body: "+err.Error())
}

// problemError is an error as RFC 9457 has it.
type problemError struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
}

type fieldError struct {
	Field string `json:"field"`
	Rule  string `json:"rule"`
}

// Error is what the client is told.
func (p *problemError) Error() string { return p.Detail }

func problem(status int, detail string) *problemError {
	return &problemError{Title: http.StatusText(status), Status: status, Detail: detail}
}

// problemOf turns an error of the Store into one for the client.
func problemOf(err error) *problemError {
	if p, ok := errors.AsType[*problemError](err); ok {
		return p
	}
	for sentinel, status := range map[error]int{
		schedule.ErrNotFound: http.StatusNotFound, schedule.ErrExists: http.StatusConflict, schedule.ErrVersion: http.StatusPreconditionFailed,
	} {
		if errors.Is(err, sentinel) {
			return problem(status, err.Error())
		}
	}
	if fields := fieldErrors(err); len(fields) > 0 {
		p := problem(http.StatusUnprocessableEntity, err.Error())
		p.Errors = fields
		return p
	}
	if pgsql.IsTransient(err) {
		return problem(http.StatusServiceUnavailable, "the database is not there; try again")
	}
	return problem(http.StatusInternalServerError, "something went wrong; the log of the server has it")
}

// fieldErrors finds every jobs.FieldError in the tree of an error.
func fieldErrors(err error) []fieldError {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *jobs.FieldError:
		return []fieldError{{e.Field, e.Rule}}
	case interface{ Unwrap() []error }:
		var all []fieldError
		for _, inner := range e.Unwrap() {
			all = append(all, fieldErrors(inner)...)
		}
		return all
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	}
	return nil
}

func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		a.Logger.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	a.write(w, r, p.Status, "application/problem+json", p)
}

func (a *api) answer(w http.ResponseWriter, r *http.Request, v any) {
	switch v := v.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case created:
		a.write(w, r, http.StatusCreated, "application/json", v.View)
	default:
		a.write(w, r, http.StatusOK, "application/json", v)
	}
}

func (a *api) write(w http.ResponseWriter, r *http.Request, status int, media string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		a.Logger.ErrorContext(r.Context(), "answer cannot be written as JSON", "path", r.URL.Path, "error", err)
		status, text = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone is told nothing
}
