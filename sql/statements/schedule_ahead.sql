-- Returns the ids of at most $3 schedules after id $2 that were changed after $1, or have published
-- an instant after it: then the clock was ahead. Paused schedules start again with their resume.
-- Called by jobs/schedule.Store.Rewind.
select s.id
from prescient.schedule s
left join prescient.schedule_state d on d.id = s.id
left join prescient.future_job f on f.job = (select prescient.find_job('schedule'))
    and f.entity_name = 'schedule'
    and f.entity_key = s.id
    and f.item_key = ''
where s.id > $2
    and not s.paused
    and (s.updated_at > $1 or (f.payload ->> 'last')::bigint > extract(epoch from $1::timestamptz) or (f.id is null and d.last_at > $1))
order by s.id
limit $3
