-- Whether a backfill is still the last one of its schedule, which it stays as long as the schedule is locked.
select count(*)
from prescient.schedule_drop
where id = $1 and backfills = $2
