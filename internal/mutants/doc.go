// Command mutants tests the tests. Each patch in the folder patches plants one fault. The command builds the packages
// that the patch names with that fault, runs their tests, and tells which test caught it.
//
//	go run ./internal/mutants [-run REGEXP] [-list]
//
// A patch begins with what it breaks, in a sentence. Then it names packages, whose tests must fail:
//
//	packages: ./slots ./slots/internal/record
//
// and, to save time, a regular expression of tests that run before all others:
//
//	first: TestALostReply
//
// Name the package that is nearest to the fault first: with some faults a run never ends, and tests of ./slots hang.
//
// The fault is in an overlay of the build, so the tree stays as it is. Exit code 1: a fault survived, or a patch does
// not apply or build.
package main
