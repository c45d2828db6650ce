package jobs

// Outcome is how a row ended; history keeps it. A row leaves in no other way.
type Outcome string

// The outcomes.
const (
	// OutcomeDone means that the check returned neither a next time nor an error.
	OutcomeDone Outcome = "done"
	// OutcomeCancelled means that an application or an operator cancelled the check.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeReplaced means that a newer row with the same key took the place of the row.
	OutcomeReplaced Outcome = "replaced"
	// OutcomeFailed means more errors in a row than Retry allows, or an error of GiveUp. `prescient jobs retry` puts the
	// row back.
	OutcomeFailed Outcome = "failed"
	// OutcomeMaxChecks means that the row needed more checks than MaxChecks allows.
	OutcomeMaxChecks Outcome = "max_checks"
	// OutcomeHorizon means that the check returned a next time further ahead than Horizon allows.
	OutcomeHorizon Outcome = "horizon"
	// OutcomePast means that the check returned a next time at or before the slot being run.
	OutcomePast Outcome = "past"
	// OutcomeDeadline means that the check could not start within Deadline after its slot, and did not run.
	OutcomeDeadline Outcome = "deadline"
	// OutcomeSkipped means that the slot was missed, or the job paused, and the misfire policy is MisfireSkip. The check
	// did not run.
	OutcomeSkipped Outcome = "skipped"
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeDone, OutcomeCancelled, OutcomeReplaced, OutcomeFailed, OutcomeMaxChecks, OutcomeHorizon, OutcomePast,
		OutcomeDeadline, OutcomeSkipped,
	}
}
