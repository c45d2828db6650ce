-- Returns the state of schedules that do not wait. It runs once they and their rows of future_job
-- are locked: a statement that has waited for a lock sees the locked row as it is then, and other
-- tables as they were before.
-- Called by jobs/schedule.Store.past.
select id, runs, last_at
from prescient.schedule_state
where id = any ($1::text[])
