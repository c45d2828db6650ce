// Package advise tells from history how many checks found nothing, when rows were really finished, and which first
// check and which interval would need fewer checks. It changes nothing: a team registers or returns the interval that
// it chooses.
//
// What is known of a row is an interval: at the last check that found nothing it was not finished, at the one that ended it it
// was. Rows that ended otherwise, and were never found finished, were open at their last check, and no more is known of them. A
// Curve is the distribution that makes what is known most likely, as Turnbull (1976) has it, by expectation and maximization;
// within a step, of which nothing is known, it rises evenly. Newer rows weigh more.
//
// Ages count from the first slot of a row. What of it was finished before that is finished at a negative age.
//
// Reading is bounded: about so many of the newest rows of history, whoever's they are, are read, and of each job so many are
// used. A job that is rare among many others has therefore few, or no curve.
package advise
