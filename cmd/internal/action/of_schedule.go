package action

import (
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// ofSchedule says why the check of a schedule is not changed: that would silently end or move the schedule.
// An empty id stands for any schedule. self is how to call the binary.
func (s *Store) ofSchedule(id string) error {
	return refusef("nothing was changed: the checks of job %q belong to schedules; use: %s schedules pause %s, or: "+
		"%[2]s schedules delete %[3]s", schedule.JobExec, s.Self, idWord(id))
}

// ofEntitySchedule is ofSchedule for the checks of all jobs of an entity, which may be those that the schedule has
// enqueued. A pause or a delete of the schedule does not end these.
func (s *Store) ofEntitySchedule(id string) error {
	return refusef("%v. Give the job of a check that a schedule has enqueued: %s jobs cancel JOB --entity %s --key %s",
		s.ofSchedule(id), s.Self, schedule.EntityName, idWord(id))
}

// ofFailedSchedule says why failed checks of schedules are not put back: they could publish an event a second
// time. Only a schedule that publishes events has a backfill.
func (s *Store) ofFailedSchedule(id string) error {
	return refusef("nothing was put back: the checks of job %q belong to schedules; "+
		"give a schedule a new check with: %s schedules resume %s. If it publishes events, publish what it has missed "+
		"with: %[2]s schedules backfill %[3]s. Otherwise do its work once, for now, with: "+
		"%[2]s schedules trigger %[3]s", schedule.JobExec, s.Self, idWord(id))
}

// idWord returns an id as a word of a shell, or "ID" for an empty one.
func idWord(id string) string {
	if id == "" {
		return "ID"
	}
	return spoken.Word(id)
}
