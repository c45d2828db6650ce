-- Moves a waiting check to another slot. See the function reschedule.
-- Called by jobs.Client.Reschedule.
select prescient.reschedule($1, $2, $3, $4, $5, $6)
