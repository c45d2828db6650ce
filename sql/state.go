package sql

import (
	"errors"
	"slices"

	"github.com/lib/pq/pqerror"
)

// State returns the SQLSTATE of the server's error that is in err, by whichever driver it came; empty where there is none.
func State(err error) pqerror.Code {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return pqerror.Code(e.SQLState())
	}
	return ""
}

// HasState tells whether err is an error of the server with one of these states.
func HasState(err error, states ...pqerror.Code) bool { return slices.Contains(states, State(err)) }
