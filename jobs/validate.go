package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
)

// Limits of the names and keys, in bytes; the database holds them too.
const (
	maxName = 200
	maxKey  = 500
)

// FieldError is a bad field of a request, with the rule. Find it with errors.As.
type FieldError struct {
	Field   string // the name in the database, such as "entity_key"
	Message string // such as "must not be empty"
}

// Error returns "entity_key: must not be empty".
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// BulkError lists every bad request of a bulk call, which wrote nothing.
type BulkError struct {
	Requests []RequestError
}

// RequestError is the error of one request of a bulk call.
type RequestError struct {
	Index int   // of the request in the slice or the stream, from 0
	Err   error // a FieldError for each bad field, joined
}

func (e *BulkError) add(index int, err error) {
	if err != nil {
		e.Requests = append(e.Requests, RequestError{Index: index, Err: err})
	}
}

// maxListed bounds the requests in the text of a BulkError; Requests has all.
const maxListed = 20

// Error lists the requests, one a line.
func (e *BulkError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the requests cannot be enqueued, so none was:", len(e.Requests))
	for i, bad := range e.Requests {
		if i == maxListed {
			fmt.Fprintf(&b, "\n... and %d more", len(e.Requests)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\nrequest %d: %v", bad.Index, bad.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the requests.
func (e *BulkError) Unwrap() []error {
	var errs []error
	for _, bad := range e.Requests {
		errs = append(errs, bad.Err)
	}
	return errs
}

// validate returns every FieldError of a request, joined.
func (c *Client) validate(r Request) error {
	c.warnUnregistered(r.JobExec)
	return errors.Join(r.validate(c.cfg.MaxPayload), c.validateHorizon(r.checkAt(), min(r.Within, maxWithin)))
}

// validateAll returns a BulkError with every bad request of a list, or nil.
func (c *Client) validateAll(list []Request) error { return c.validatePart(list, 0, len(list)) }

// validatePart returns a BulkError with the bad requests of a part of a call, at most so many, or nil. first is the
// index of list[0] in the call.
func (c *Client) validatePart(list []Request, first, most int) error {
	var bad BulkError
	for i, request := range list {
		if bad.add(first+i, c.validate(request)); len(bad.Requests) == most {
			break
		}
	}
	if len(bad.Requests) > 0 {
		return &bad
	}
	return nil
}

// Validate returns a FieldError for each field of a request with which it cannot be enqueued, joined.
// Client.Enqueue also compares the instant with Config.Horizon, and the payload with Config.MaxPayload.
func (r Request) Validate() error { return r.validate(payload.MaxStored) }

// validate returns the errors that the database would return for a request, and an error for
// a payload of more than maxPayload bytes.
func (r Request) validate(maxPayload int) error {
	return errors.Join(r.Key().validate(), checkName("group_key", r.GroupKey, 0, maxKey),
		validateTime(r.checkAt(), min(r.Within, maxWithin)), validatePayload(r.Payload, maxPayload),
		validateAnonymous(r), checkWithin(r.Within), checkUnless(r))
}

func validateAnonymous(r Request) error {
	if r.Anonymous && r.ItemKey != "" {
		return &FieldError{"item_key", "must be empty on an anonymous check, which has no key"}
	}
	return nil
}

// maxWithin is the widest window.
const maxWithin = 366 * 24 * time.Hour

func checkWithin(within time.Duration) error {
	if within < 0 || within > maxWithin || within%time.Second != 0 {
		return &FieldError{"within", "must be whole seconds, up to 366 days"}
	}
	return nil
}

func checkUnless(r Request) error {
	switch {
	case checkWithin(r.UnlessEndedWithin) != nil:
		return &FieldError{"unless_ended_within", "must be whole seconds, up to 366 days"}
	case r.Anonymous && r.conditional():
		return &FieldError{"unless_ended_within", "must be 0 on an anonymous check, which has no key"}
	}
	return nil
}

// validateTime checks the end of the window, as a run does, because the slot in it is not chosen
// yet.
func validateTime(at time.Time, within time.Duration) error {
	switch {
	case at.IsZero():
		return &FieldError{"check_at", "must be set: CheckAt is when to check"}
	case at.Before(grid.Min()) || at.Add(within).After(grid.Max()):
		return &FieldError{
			"check_at", fmt.Sprintf("must be from %s to %s", grid.Min().Format("2006-01-02"), grid.Max().Format("2006-01-02")),
		}
	}
	return nil
}

func (c *Client) validateHorizon(at time.Time, within time.Duration) error {
	if validateTime(at, within) == nil && at.Add(within).Sub(c.Now()) > c.cfg.Horizon {
		return &FieldError{"check_at", fmt.Sprintf("must be within the horizon, %s from now, %s: got %s",
			spoken.Duration(c.cfg.Horizon), spoken.Instant(c.Now()), spoken.Instant(at))}
	}
	return nil
}

func validatePayload(text json.RawMessage, most int) error {
	if problem := payload.Problem(text, most); problem != "" {
		return &FieldError{"payload", problem}
	}
	return nil
}

func (k Key) validate() error {
	return errors.Join(
		checkJob(k.JobExec),
		checkEntityName(k.EntityName),
		checkEntityKey(k.EntityKey),
		checkName("item_key", k.ItemKey, 0, maxKey),
	)
}

// ValidateJob returns a FieldError if JobExec cannot be the name of a job. It is for prescient's packages alone.
func (k Key) ValidateJob(_ reserved.Caller) error { return checkJob(k.JobExec) }

func checkJob(name string) error { return checkName("job_exec", name, 1, maxName) }

func checkEntityName(name string) error { return checkName("entity_name", name, 1, maxName) }

func checkEntityKey(key string) error { return checkName("entity_key", key, 1, maxKey) }

func checkName(field, value string, least, most int) error {
	switch {
	case len(value) < least:
		return &FieldError{field, "must not be empty"}
	case len(value) > most:
		return &FieldError{field, fmt.Sprintf("must be at most %d bytes, is %d", most, len(value))}
	case strings.ContainsRune(value, 0):
		return &FieldError{field, "must not contain a NUL byte"}
	case !utf8.ValidString(value):
		return &FieldError{field, "must be valid UTF-8"}
	}
	return nil
}
