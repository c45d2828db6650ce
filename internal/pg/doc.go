// Package pg sends prescient's statements to PostgreSQL.
//
// It has a [Statement] for each file of sql/statements; the driver's connections, whose transactions cost few
// round trips ([Own], [LazyTx]); [Message], several statements that go to the server together; and what the
// server's errors mean.
// Package sql has what applications use of it.
package pg
