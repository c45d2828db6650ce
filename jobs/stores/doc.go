// Package stores is for applications that have their checks in several stores: each is one schema of one database, with
// everything that prescient keeps, and a run of its own.
//
//	set, err := stores.New(ctx, []stores.Store{{Name: "a", DB: a}, {Name: "b", DB: b}}, jobs.Config{})
//	...
//	store, err := set.ByKey(customer)
//	...
//	_, err = store.Client.Enqueue(ctx, tx, check) // tx is of store.DB
//
// A check is enqueued in the transaction that gives rise to it, so its store is that of the application's data. Who has a
// database for each tenant asks for the store by name, with [Set.For]. Who only wants to spread checks lets [Set.ByKey] choose.
//
// # Taking a store away, and adding one
//
// [Set.Drain] marks a store in its own settings. ByKey chooses it no more, as soon as each process has called [Set.Refresh]; one that has
// not goes on enqueuing there, which is all right: runs go on over a store that is drained. [Set.Move] takes what waits there
// into other stores, while runs and applications go on, and may be repeated until [State] says that the store is empty. It moves rows to
// a store that was added, too: each goes where ByKey puts it.
//
// A row is moved whole, with its history of changes, to which the move is added. It keeps its slot, or gets the next one where the other store has
// no such slot or the slot has begun; it is never checked earlier than asked for, and by one store alone. Rows whose slot begins
// within [Margin] are left to the runs of their store. Recurring schedules are moved with the instant that they wait for, so
// each is published once. What has ended, the ledger and the outbox stay. Jobs that are paused are paused in the
// other store, too, when their rows come.
//
// # Cancelling while rows move
//
// At any moment a row is found in the store that it comes from, or after that in the one that it goes to, where a cancel finds it on its way,
// too. So whoever cancels asks the stores of [Set.Holding] in their order:
//
//	for _, store := range set.Holding(customer) {
//		if store.Client == nil {
//			return store.Err // it has not answered yet
//		}
//		if _, err := store.Client.Cancel(ctx, store.DB, key); err != nil {
//			return err
//		}
//	}
//
// Reschedule and PushBack find a row where it waits, not on its way: where they find none, enqueue, as ever. What is
// enqueued in the store that a row goes to is the later word: the row that arrives ends there as replaced. If the row
// there is due, the one that arrives is recorded on it as a request; see jobs.OnConflict. Cancels and enqueues that come
// first to the store that a row goes to, and then to the one that it comes from, may miss it.
//
// Limits, places, paces and groups are those of each store. Two rows of a group whose keys are in different stores are not
// checked together.
package stores
