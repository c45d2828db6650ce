// Package sqljob binds a job to a query, so that "do this, when that has not happened" takes not a line of Go. The
// query gets the keys of the entities that are due, and returns those that need something done:
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
//   - next, timestamptz: when to look again, rounded up to a slot, or null when that was the last look.
//
// One of event and next must be there; no other column may be. A key that the query does not return is finished: what
// should have happened has happened. A key that is returned twice, or that cannot be published, is an error of its own
// rows, which are tried again in later slots; a query that fails or returns a key that was not asked for is an error
// of the whole batch. Rows that share an entity_key, with other item_keys or entity_names, share what the query says.
//
// The query runs once for a batch of up to Config.BatchSize rows, or else run.batch_size, in a read-only transaction of its
// own with a statement_timeout and, where one is given, under its own role. The role keeps a query to what it needs; it
// does not lock in one that was written to break out. A search_path of "$user" means the role then: name the schemas of
// tables.
//
// An event has the entity_key as Subject, and its ID is the same whenever the same check of a row is repeated. With a
// publisher that is an event.TxPublisher events are written in the transaction that records what became of the rows,
// so each is published exactly once; with another, at least once.
package sqljob
