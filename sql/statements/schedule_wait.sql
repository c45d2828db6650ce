-- Locks the rows of future_job that stand for schedules. A run that holds such a row ends first. A
-- run that comes later reads the changed schedule.
-- Called by jobs/schedule.Store.lock.
select entity_key, payload
from prescient.future_job
where entity_name = 'schedule'
    and entity_key = any ($1::text[])
    and job = (select prescient.find_job('schedule'))
    and item_key = ''
order by entity_key
for update
