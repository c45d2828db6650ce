// Package advise learns from history how many checks found nothing, and when rows were really
// finished. It recommends a first check and an interval that need fewer checks. It changes nothing:
// a team registers or returns the interval that it chooses.
//
// A row is known by an interval: at the last check that found nothing it was not finished, at the
// check that ended it it was. Rows with another end, never found finished, were open at their last
// check; later is unknown. A Curve is the most likely distribution, by expectation and maximization
// (Turnbull 1976). It rises linearly within a step, because nothing is known there. Newer rows
// weigh more.
//
// Ages count from the first slot of a row. A row that was finished before has a negative age.
//
// Reading is bounded: only the newest rows of history are read, of all jobs together, and only some
// of each job are used. A rare job among many others therefore has few rows, or no curve.
package advise
