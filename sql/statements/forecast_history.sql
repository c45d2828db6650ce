-- Samples $1 percent of the blocks of the history that ended from $2 up to but not including $3. It
-- returns when each row came into its slots and left them. exact: the requested instant is a slot.
-- removed: the row was cancelled or replaced.
-- Called by internal/forecast.reader.readHistories.
select
    job_exec, enqueued_at, first_check_at, coalesce(journal, '') as journal, slot, finished_at, outcome in ('cancelled', 'replaced') as removed,
    requested_for is null as exact
from prescient.future_job_history tablesample system ($1) repeatable (1)
where finished_at >= $2 and finished_at < $3
