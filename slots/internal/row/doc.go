// Package row has the values that travel through a run: rows as they are read, outcomes of rows, and
// tallies of outcomes. It knows the guards of jobs by package guard, and no claims, functions or
// servers.
package row
