// Package backtest says what the steps of a rule would have done on the past of its table, before the
// rule is applied.
//
// It reads the rows once, in a read-only transaction, and writes nothing. A step would have fired for
// a row if the row was not done at the beginning of the step's slot. The past of a row is what its
// columns say today, so Done must be a column of instants, and deleted rows are not known.
package backtest
