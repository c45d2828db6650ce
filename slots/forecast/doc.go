// Package forecast tells what the slots to come will bring: the rows of each, by job, how long it will take to run them, and
// which slots will not end before the next one begins, or break an SLA.
//
//	f, err := forecast.Look(ctx, forecast.Config{DB: db, For: 24 * time.Hour})
//	for _, slot := range f.Slots { ... }
//
// Rows: most of what is due is there already, and is counted in the slot index. What is not there yet follows from the past:
// which part of the rows of a job comes into its slot less than an hour before it, less than a day before it, and how many rows the
// slots of the same time of day had. Which part of those that wait is cancelled before its slot is known in the same way. Recurring
// schedules count with every instant to come.
//
// Time: what the slots of the ledger took is explained by their rows of each job, by the run time of its checks, and by how many
// runners and workers took part.
//
// Reading is bounded, however many rows wait: some thousand entries of the index for each job in a slot, MostSlots slots, and a
// sample of history. Nothing is kept for it that an enqueue would pay for.
//
//	Look       look.go      reads all of it, and puts it together
//	curve      visit.go     when the rows of a job come and go
//	past       past.go      what the ledger has of the past
//	cost       cost.go      how long a slot takes
//	WhatIf     whatif.go    the same with other runners, workers or width
//	finding    finding.go   what is too much, and what would help
//	Backtest   backtest.go  what would have been said of slots that have been run
package forecast
