// Package stores is for applications with checks in several stores. Each store is one schema of one
// database, with all tables of prescient and runs of its own.
//
//	set, err := stores.New(ctx, []stores.Store{{Name: "a", DB: a}, {Name: "b", DB: b}}, jobs.Config{})
//	...
//	store, err := set.Route(customer)
//	...
//	_, err = store.Client.Enqueue(ctx, tx, check) // tx is of store.DB
//
// An application enqueues a check in the transaction of its own data, so the check's store is in
// the same database. With a database for each tenant, get the store by name, with [Set.Get]. To
// spread checks only, let [Set.Route] choose.
//
// # Removing and adding a store
//
// [Set.Drain] marks a store in its own settings. Route stops choosing it as soon as each process
// has called [Set.Refresh]. Until then a process may enqueue there, which is safe: runs still serve
// a drained store.
//
// [Set.Move] moves the waiting rows into other stores, while runs and applications go on. Repeat it
// until [State] says that the store is empty. It also moves rows to an added store: each goes where
// Route puts it.
//
// A row moves whole, with its timeline, which records the move. It keeps its slot. If the other
// store has no such slot, or the slot has begun, it gets the next one. It is never checked early,
// and only by one store. Rows whose slot begins within [Margin] stay for the runs of their store.
//
// Recurring schedules move with their next instant, so each instant is published once. Checks of
// rules stay with the tables that they watch, and each store keeps its own row of each periodic
// function. So remove the rules of a store before the store. History, the ledger and the outbox
// stay. A paused job is paused in the other store, too, when its rows arrive.
//
// # Cancelling while rows move
//
// At any moment a row is in the store it comes from or, after that, in the one it goes to. A cancel
// there also finds a row on its way. So ask the stores of [Set.Candidates] in their order:
//
//	for _, store := range set.Candidates(customer) {
//		if store.Client == nil {
//			return store.Err // it has not answered yet
//		}
//		if _, err := store.Client.Cancel(ctx, jobs.OwnTx(store.DB), key); err != nil {
//			return err
//		}
//	}
//
// Reschedule and PushBack find a row where it waits, but not on its way. If they find none,
// enqueue. An enqueue in the store that a row goes to wins: the arriving row ends there as
// replaced. If the row there is due, it records the arriving row as a request; see jobs.OnConflict.
// A cancel or enqueue that asks the stores in the reverse order may miss the row.
//
// Limits, rates and groups belong to one store. Two rows of a group whose keys are in different
// stores are not checked together.
package stores
