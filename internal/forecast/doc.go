// Package forecast predicts the coming slots: the rows of each by job, how long its run will take,
// and which slots will end late or break an SLA.
//
//	f, err := forecast.Compute(ctx, forecast.Config{DB: db, For: 24 * time.Hour})
//	for _, slot := range f.Slots { ... }
//
// Rows: most rows that will be due wait already, and the slot index counts them. The past tells the
// rest. Which part of a job's rows comes into its slot less than an hour before it, and which less
// than a day before it? How many rows did the slots of the same time of day have? Which part of the
// waiting rows is cancelled before its slot? Recurring schedules count with every instant to come.
// Overdue rows are counted beside the slots, because the next catch-up takes them.
//
// Time: the run times of past slots are explained by the rows of each job, the run time of its
// checks, and the number of runners and workers.
//
// Reading is bounded, however many rows wait: a thousand index entries for each job in a slot,
// MaxSlots slots, and a sample of history. An enqueue pays nothing for it.
//
//	Compute   compute.go  reads all of it, and puts it together
//	curve     stay.go     when the rows of a job come and go
//	past      past.go     what the ledger has of the past
//	cost      cost.go     how long a slot takes
//	WhatIf    whatif.go   the same with other runners, workers or width
//	finding   finding.go  what is too much, and what would help
package forecast
