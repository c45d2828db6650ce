-- Samples $1 percent of the blocks of the waiting rows that have a journal. It returns when each row
-- came into its slots.
-- Called by internal/forecast.reader.readHistories.
select coalesce(j.name, '#' || f.job) as name, f.enqueued_at, f.first_check_at, f.journal, f.next_check_at as slot, f.requested_for is null as exact
from prescient.future_job f tablesample system ($1) repeatable (1)
left join prescient.job j on j.job = f.job
where f.journal is not null and f.job is distinct from (select prescient.find_job('schedule'))
