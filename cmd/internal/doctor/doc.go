// Package doctor finds problems before they hurt: each check queries the server, and returns
// findings.
//
// A finding is data: the problem, its severity, and the command that fixes it. A check that the
// role may not make is also a finding, and not an error.
package doctor
