-- A sample of $1 percent of the blocks of what waits and has a trace: when its rows came into the slots that they were in.
select coalesce(j.name, '#' || f.job) as name, f.enqueued_at, f.first_check_at, f.trace, f.next_check_at as slot, f.asked_for is null as exact
from prescient.future_job f tablesample system ($1) repeatable (1)
left join prescient.job j on j.job = f.job
where f.trace is not null and f.job <> prescient.number_of('schedule')
