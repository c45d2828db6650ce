// Package reserved knows the names of the jobs that belong to prescient itself. The public packages
// refuse these names, because a job of another meaning under one of them would end the rows of prescient's job.
package reserved

// Schedule is the name of the job that publishes schedules.
const Schedule = "schedule"

// IsJob returns whether a name belongs to a job of prescient.
func IsJob(name string) bool { return name == Schedule }

// Caller marks a function for prescient's packages alone: no other module can write a value of it.
type Caller struct{ _ mark }

// mark makes Caller differ from struct{}, whose value would be one of Caller.
type mark struct{}
