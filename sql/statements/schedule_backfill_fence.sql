-- Reports whether a backfill is still the last one of its schedule. It stays so while the schedule
-- is locked.
-- Called by jobs/schedule.backfill.flush.
select count(*)
from prescient.schedule_state
where id = $1 and backfills = $2
