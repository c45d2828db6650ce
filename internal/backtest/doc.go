// Package backtest says what the steps of a rule would have done on the past of its table, before the
// rule is applied.
//
// It reads the rows once, in a read-only transaction, and writes nothing. A step would have fired for
// a row if the row was not done at the beginning of the step's slot. The past of a row is what its
// columns say today. If a condition ends the row now, they do not say since when.
//
// If the rule is applied, Config.Record adds what it has fired, and how its rows ended: a step may have
// closed its own row, or deleted it.
package backtest
