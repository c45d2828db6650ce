package jobs

// Outcome is how a row ended; history keeps it. A row leaves in no other way.
type Outcome string

// The outcomes.
const (
	// Done: the check returned neither a next time nor an error.
	Done Outcome = "done"
	// Cancelled by its owner.
	Cancelled Outcome = "cancelled"
	// Replaced by a newer row with the same key.
	Replaced Outcome = "replaced"
	// Failed: more errors in a row than Retry allows. `prescient jobs retry` puts it back.
	Failed Outcome = "failed"
	// TooManyChecks: it needed more checks than MaxChecks allows.
	TooManyChecks Outcome = "max_checks"
	// BeyondHorizon: its check returned a next time further ahead than Horizon allows.
	BeyondHorizon Outcome = "horizon"
	// InThePast: its check returned a next time at or before the slot being run.
	InThePast Outcome = "past"
	// DeadlinePassed: the check could not start within Deadline after its slot, and did not run.
	DeadlinePassed Outcome = "deadline"
	// Skipped: its slot was missed and its misfire policy is MisfireSkip; it did not run.
	Skipped Outcome = "skipped"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{
	Done, Cancelled, Replaced, Failed, TooManyChecks, BeyondHorizon, InThePast, DeadlinePassed, Skipped,
}
