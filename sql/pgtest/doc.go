// Package pgtest gives each test a PostgreSQL database of its own, migrated and empty. Package
// testkit adds the engine and a clock.
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		db := pgtest.New(t)
//		db.MustExec("create table orders (id bigint primary key)")
//	}
//
// The first test that asks for a database starts a server: one for the test process, without the
// waits for a disk that make a server survive a power cut, in a directory of TMPDIR or, where that
// is not set and there are 4 GB of it free, of the memory at /dev/shm. The schema is migrated once,
// into a template; each test gets a copy of it, which is made in some 20 ms and dropped with the
// test. Tests share nothing, so all of them may be parallel. A process whose tests ask for nothing
// starts nothing. The server begins with a copy of the data that initdb made for an earlier process,
// which takes 0.07 s of CPU time instead of 0.6. The copies are in the user's folder for caches, such
// as ~/.cache/prescient/pgtest, with 40 MB for each of the last four versions of PostgreSQL. The
// folder may be removed at any time.
//
// The server ends with the process, however that ends: a watchdog, a shell that waits for the end
// of a pipe which the process holds, stops the server and removes its directory after a panic or a
// kill, too. A process that is to wait for that, and to fail when it fails, has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Where a server is there already, as in a CI job, PRESCIENT_TEST_DATABASE_URL names it. Its role
// needs CREATEDB; the tests of prescient itself, which make roles and end sessions, need a
// superuser, max_connections = 300 and max_prepared_transactions = 10. The databases' names begin
// with prescient_test_; a killed process leaves its own behind there. Without Main there is no
// template on such a server, and each database takes a few times as long.
//
// PRESCIENT_TEST_POOLER, set to anything, puts PgBouncer in transaction mode before each database
// of New and URL: what a test asks with parameters must be in a transaction then, too.
//
// PRESCIENT_TEST_CITUS_URL names a database of a Citus coordinator which knows its workers, for
// make test-citus. Each test has a database of its own on every node then, and a schema in it is on
// one worker. A test that can have no meaning there is skipped, and says why: see [NotOnCitus]. A
// role that may make databases on each node is needed.
//
// What becomes of a process that dies, loses a connection, stands still or is overtaken at a
// statement of its own is found out with [OpenFaults]: a pool that counts round trips and has a
// [Fault] happen at the one that the test chooses. A test that goes through all of them has seen
// every statement boundary.
//
// A test that gets no database fails, and is never skipped: what is not tested must not look
// tested.
package pgtest
