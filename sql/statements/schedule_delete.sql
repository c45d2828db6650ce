-- Deletes schedules that were locked and cancelled, and their counts.
-- Called by jobs/schedule.Store.remove.
with gone as (
    delete from prescient.schedule
    where id = any ($1::text[])
    returning id
), counted as (
    delete from prescient.schedule_state
    where id = any ($1::text[])
)
select count(*)
from gone
