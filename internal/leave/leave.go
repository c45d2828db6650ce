// Package leave has the errors with which a function of prescient leaves rows of a call to further calls. The runner
// calls the function again for them at once.
package leave

import "errors"

// ErrToNext leaves rows to the next call, because the transaction of this one has held their locks for long. A call
// must not leave out all of its rows.
var ErrToNext = errors.New("the row is left to the next call")

// ErrAlone leaves rows to calls of their own, one row a call, such as rows whose work takes long. Such a call locks no
// other row. A call may leave out all of its rows so, unless it has only one.
var ErrAlone = errors.New("the row is left to a call of its own")

// ErrToSlot leaves a row to the next slot, because it could not be checked yet. This does not count as an error of the
// row.
var ErrToSlot = errors.New("the check is deferred to the next slot")
