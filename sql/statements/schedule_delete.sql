-- Deletes schedules that have been locked and cancelled, and what was counted for them.
with gone as (
    delete from prescient.schedule
    where id = any ($1::text[])
    returning id
), counted as (
    delete from prescient.schedule_drop
    where id = any ($1::text[])
)
select count(*)
from gone
