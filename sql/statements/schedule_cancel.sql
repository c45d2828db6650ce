-- Ends the rows of future_job that stand for schedules.
-- Called by jobs/schedule.Store.remove.
-- Called by jobs/schedule.Store.write.
select count(*) filter (where prescient.cancel('schedule', 'schedule', id))
from unnest($1::text[]) as g (id)
