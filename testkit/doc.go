// Package testkit tests the checks of an application: on a database of the test's own, through the
// engine that runs in production, in virtual time. Days take milliseconds, and no test sleeps.
//
//	func TestAnOrderThatIsNotShippedIsAlerted(t *testing.T) {
//		t.Parallel()
//		kit := testkit.New(t, testkit.Config{Registry: checks()})
//		kit.DB.MustExec("create table orders (id bigint primary key, shipped_at timestamptz)")
//		kit.DB.MustExec("insert into orders (id) values (42)")
//		check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
//
//		placed := kit.Now()
//		kit.Enqueue(check, placed.Add(48*time.Hour)) // or the application's own code, with kit.Client
//		kit.RequireWaiting(check.Key(), placed.Add(48*time.Hour))
//
//		kit.RunFor(72 * time.Hour) // each slot as it begins, as cron would
//		kit.RequireEnded(check.Key(), jobs.OutcomeDone)
//	}
//
// The clock stands still until the test moves it: by [Kit.Run], [Kit.RunUntil], [Kit.RunFor] and
// [Kit.RunAll], which run each slot on the way, or by kit.Clock, which runs nothing, as in an
// outage. Kit.Now is also a clock for the application's own code.
//
// [Check] calls a check without slots. It needs no database.
//
// The first test that needs the server starts it, and it ends with the test process.
// PRESCIENT_TEST_DATABASE_URL names a running server to use instead. Package sql/pgtest creates the
// databases, and says how to wait for the server's end.
package testkit
