package sql

import (
	"errors"
	"reflect"
	"slices"

	"github.com/lib/pq/pqerror"
)

// State returns the SQLSTATE of the server's error that is in err, by whichever driver it came; empty where there is none.
func State(err error) pqerror.Code {
	if e, ok := errors.AsType[serverError](err); ok {
		return pqerror.Code(e.SQLState())
	}
	return ""
}

// serverError is what the errors of the server have in common, by whichever driver they came.
type serverError interface {
	error
	SQLState() string
}

// routine returns the function of the server that has found the error which is in err; empty where there is none. The message may
// be in any language. Drivers have a field for it.
func routine(err error) string {
	e, _ := errors.AsType[serverError](err)
	if v := reflect.Indirect(reflect.ValueOf(e)); v.Kind() == reflect.Struct {
		if name := v.FieldByName("Routine"); name.Kind() == reflect.String {
			return name.String()
		}
	}
	return ""
}

// HasState tells whether err is an error of the server with one of these states.
func HasState(err error, states ...pqerror.Code) bool { return slices.Contains(states, State(err)) }
