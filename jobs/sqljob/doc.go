// Package sqljob binds a job to a query, so that "do this, when that has not happened" needs no Go.
// The query gets the keys of the due entities, and returns those that need an action:
//
//	select id::text as entity_key,
//	       jsonb_build_object('customer', customer) as event,
//	       now() + interval '1 day' as next
//	from orders
//	where id = any ($1::text[]::bigint[]) and shipped_at is null
//
// Its columns are known by their names:
//
//   - entity_key: the key, as it was given. It must be there.
//   - event, json or jsonb: the data of an event to publish, or null for none.
//   - next, timestamptz: when to check again, rounded up to a slot, or null after the last check.
//
// The query must have event or next, and no other columns. A key that it does not return is
// finished: the expected thing has happened. If the query returns a key twice, or its event cannot
// be published, the key's rows get an error and are retried in later slots. Rows that share an
// entity_key share the result of the query.
//
// A query that fails fails the whole batch. If a key may be at fault, the runner calls the query again
// with each half of the keys, so that only the rows of that key fail: for a value that cannot be cast,
// a division by zero, a key that was not asked for, or a query that exceeds its timeout. If more than
// three keys seem to be slow, the query itself hangs, and the rest of the batch fails.
//
// The query runs once for a batch of up to Config.BatchSize rows, or else run.page. It runs
// in a read-only transaction of its own with a statement_timeout and, with Config.Role, under its
// own role. Its session has the time zone UTC, and standard settings for how values are written. If a
// policy of row security concerns the role, the query fails: rows that it hides would look finished.
// The role limits a query to what it needs; it does not stop one that was written to break out. A
// search_path of "$user" then means the role, so name the schemas of tables.
//
// An event has the entity_key as Subject. Its ID is the same whenever the same check of a row is
// repeated. The outbox gets it in the transaction that records the outcome of the rows, so exactly once.
package sqljob
