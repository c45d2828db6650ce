// Package delayq is a delay queue: data goes in with an instant, and comes out when that has
// passed.
//
//	queue, err := delayq.Open(ctx, db, delayq.Config{Schema: "mail", Width: time.Second})
//	...
//	err = queue.Delay(placedAt.Add(24*time.Hour), []byte("order 42"))
//	...
//	err = queue.Run(func(t time.Time, data []byte) error {
//		return remind(t, data)
//	})
//	...
//	// Or with contexts, in the transaction that gives rise to it, and with an ID that tells a repeat:
//	err = queue.DelayContext(ctx, tx, placedAt.Add(24*time.Hour), []byte("order 42"))
//	...
//	err = queue.RunContext(ctx, func(ctx context.Context, item delayq.Item) error {
//		return remindOnce(ctx, item.ID, item.Data)
//	})
//
// It is the engine of package slots with one job and a grid of its own, so it makes the same
// promises:
//
//   - An item delayed in a transaction exists if and only if that transaction commits.
//   - It is handled at the first slot at or after its instant, never before; one whose instant has passed, at the next
//     slot. Within a slot the order is not defined.
//   - It is handled at least once: again when the process that did it dies, or the database goes away, before it is
//     recorded. Item.ID is the same each time.
//   - Any number of processes may run a queue, and share each slot. What became due while none did is handled when
//     the next one starts.
//
// Each queue has a schema of its own, which Open makes. The command line looks into it: an item
// that failed too often is in history, with its error and its data, and can be put back.
//
//	prescient --schema mail status
//	prescient --schema mail jobs history --outcome failed
//	prescient --schema mail jobs history --output json | jq -r '.items[].payload.data | @base64d'
//	prescient --schema mail jobs retry --entity item --key ID
//	prescient --schema mail jobs retry --all
//
// Leave its slots to Run: to run, catch-up and daemon of the command line, items are rows of a job
// that is not registered, which they leave where they are.
package delayq
