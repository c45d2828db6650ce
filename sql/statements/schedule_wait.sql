-- Locks the rows of future_job that stand for schedules: a run that holds one ends first, and one that comes later
-- reads the schedule as it is then.
select entity_key, payload
from prescient.future_job
where entity_name = 'schedule'
    and entity_key = any ($1::text[])
    and job = prescient.number_of('schedule')
    and item_key = ''
order by entity_key
for update
