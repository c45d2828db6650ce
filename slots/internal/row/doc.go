// Package row has the values that travel through a run: rows as they are read, outcomes of rows, and tallies of them. It
// knows the limits of jobs by package guard, and nothing of claims, functions or servers.
package row
