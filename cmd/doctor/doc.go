// Package doctor looks for what will hurt before it does: each check asks the server one thing, and returns findings.
//
// A finding is data: what is so, how bad that is, and the command that mends it. A check that the role may not make is a
// finding, too, and not an error.
package doctor
