package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Problem is an error in the form of RFC 9457.
type Problem struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is an invalid field, and the rule that it breaks.
type FieldError struct {
	Field string `json:"field"`
	Rule  string `json:"rule"`
}

// Error returns the text for the client.
func (p *Problem) Error() string { return p.Detail }

// NoRights is the answer if the database refuses a request for lack of rights.
const NoRights = "the database role of this server may not do that: " +
	"grant its login the role of operators, which migrate roles creates"

// AskLess says what to do about a request that takes the database too long.
const AskLess = "ask for less, such as one job, or a shorter time"

// NewProblem returns a problem with the title of its status.
func NewProblem(status int, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// PathsAt says where the paths of an API are described.
func PathsAt(document string) string {
	return "there is no such path: " + document + " describes those of this API"
}

// ProblemOf turns an error into a problem for the client. statuses has the errors that a client may
// see.
func ProblemOf(err error, statuses map[error]int) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	for sentinel, status := range statuses {
		if errors.Is(err, sentinel) {
			return NewProblem(status, err.Error())
		}
	}
	if fields := fieldErrors(err); len(fields) > 0 {
		p := NewProblem(http.StatusUnprocessableEntity, err.Error())
		p.Errors = fields
		return p
	}
	switch {
	case pg.IsRowSecurity(err):
		return NewProblem(http.StatusServiceUnavailable, pgsql.ErrRowSecurity.Error())
	case pg.HasState(err, pqerror.InsufficientPrivilege):
		return NewProblem(http.StatusForbidden, NoRights)
	case pg.HasState(err, pqerror.QueryCanceled):
		return NewProblem(http.StatusServiceUnavailable,
			"it would take the database too long: "+AskLess)
	case errors.Is(err, ErrLate) || errors.Is(err, context.DeadlineExceeded):
		return NewProblem(http.StatusServiceUnavailable, ErrLate.Error())
	}
	if pg.IsRetryable(err) || pg.IsLockTimeout(err) {
		return NewProblem(http.StatusServiceUnavailable, "another transaction was in the way: try again")
	}
	if pg.IsTransient(err) {
		return NewProblem(http.StatusServiceUnavailable, "the database is not there; try again")
	}
	missing := pg.ExplainMissing(err)
	for _, why := range []error{pgsql.ErrNotMigrated, pgsql.ErrNewer, pgsql.ErrReadOnly} {
		if errors.Is(missing, why) {
			return NewProblem(http.StatusServiceUnavailable, why.Error())
		}
	}
	return NewProblem(http.StatusInternalServerError, "something went wrong; the log of the server has it")
}

// fieldErrors returns every jobs.FieldError in the tree of an error.
func fieldErrors(err error) []FieldError {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *jobs.FieldError:
		return []FieldError{{e.Field, e.Message}}
	case interface{ Unwrap() []error }:
		var all []FieldError
		for _, inner := range e.Unwrap() {
			all = append(all, fieldErrors(inner)...)
		}
		return all
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	}
	return nil
}
