// Package slots runs slots: it opens them in the ledger, claims their shards under leases, has the due rows checked
// and records what became of them. It also catches up on slots that were missed.
//
// One row on its way, and where to read it:
//
//	Runner.Due      which.go      the slot that this moment, this Job name or --slot stands for
//	Runner.Run      runner.go     waits for its boundary and runs it
//	ledger.open     ledger.go     one ledger row, one lease row for each shard that has rows
//	scan.loop       scan.go       decides what is next: read, close, claim, stand by
//	scan.claim      claim.go      claims shards, and closes them when nothing of them is left
//	scan.share      share.go      gives shards up to a runner that asks, and asks
//	scan.read       read.go       reads a page of all shards
//	scan.handOut    handout.go    hands its rows out, one by one or in batches
//	scan.advance    gate.go       lets so many checks run at once, of all, of one job, and with a transaction
//	scan.check      check.go      calls the job's function; timeout, panic and Goexit become errors
//	scan.write      record.go     records outcomes in batches, each in one fenced transaction
//	scan.record     write.go      the statements of such a transaction
//	scan.beat       heartbeat.go  renews the leases, and stops checks whose lease is lost
//	Runner.CatchUp  catchup.go    every slot that was missed or left, oldest first
//	Ledger          status.go     what there is to see
//
// A (slot, shard) is free, claimed by one runner until its lease ends, or done. Its token fences a runner that lost
// its lease: the last statement of every transaction that records something finds no lease row with that token, and
// the transaction is rolled back.
//
// A runner claims every free shard and reads and records them together, in the order in which their rows were written:
// a page of a large table is then visited once, and not once for every shard that has a row in it. Whoever comes later
// asks, and gets half of what the others hold and have not begun to check.
//
// Before a shard is closed it is looked through for rows that were committed behind its reader. That is a walk over the
// dead index entries of all that was in it, so it is done only where a transaction from before the slot was opened was
// still in progress when its reading began; else the look begins after the last row that was read. Only such a
// transaction brings rows into a slot that runs, but for a statement that chose the slot right before its boundary and
// waited for a lock across it. What that brings, and what comes after the close, are stragglers, for catch-up.
//
// The slot's instant is a parameter everywhere. Leases use the database's clock, always; everything that compares
// with slots uses Config.Now, or the database's clock where that is nil.
//
// The arithmetic of the grid is in package grid below this one.
package slots
