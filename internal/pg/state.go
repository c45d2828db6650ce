package pg

import (
	"errors"
	"reflect"
	"slices"

	"github.com/lib/pq/pqerror"
)

// State returns the SQLSTATE of the server's error in err, from any driver. Returns an empty code
// if there is none.
func State(err error) pqerror.Code {
	if e, ok := errors.AsType[serverError](err); ok {
		return pqerror.Code(e.SQLState())
	}
	return ""
}

// serverError is implemented by the server errors of every driver.
type serverError interface {
	error
	SQLState() string
}

// Routine returns the server's C function that raised the error in err. Returns "" if there is
// none. The message may be in any language, and drivers have a field for the function.
func Routine(err error) string {
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

// IsOfValue tells whether err is an error of the server about a value, so that a statement with the
// other values may succeed: a cast, a division by zero, a constraint, a subquery with two rows, a
// limit, or an exception that a function raises.
func IsOfValue(err error) bool {
	state := State(err)
	if state == "" {
		return false
	}
	switch state.Class() {
	case pqerror.ClassCardinalityViolation, pqerror.ClassDataException, pqerror.ClassIntegrityConstraintViolation,
		pqerror.ClassProgramLimitExceeded, pqerror.ClassPLpgSQLError:
		return true
	}
	return false
}

// IsMistake tells whether err is an error of the server that the text of a statement causes: its
// data, unknown schemas, syntax and names, or a feature that the server does not have.
func IsMistake(err error) bool {
	state := State(err)
	return state != "" && slices.Contains([]pqerror.Class{"22", "3F", "42", "0A"}, state.Class())
}

// IsPolicy tells whether err says that no policy of row security lets a statement write its row.
func IsPolicy(err error) bool {
	return HasState(err, pqerror.InsufficientPrivilege) && Routine(err) == "ExecWithCheckOptions"
}

// IsRowSecurity tells whether err says that a policy of row security concerns a statement of a
// transaction with row_security off.
func IsRowSecurity(err error) bool {
	return HasState(err, pqerror.InsufficientPrivilege) && Routine(err) == "check_enable_rls"
}
