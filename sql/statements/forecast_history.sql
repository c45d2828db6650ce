-- A sample of $1 percent of the blocks of the history that ended from $2 up to but not including $3: when its rows came into
-- their slots and left them. exact: the instant that was asked for is a slot. removed: somebody has cancelled or replaced the row.
select
    job_exec, enqueued_at, first_check_at, coalesce(trace, '') as trace, slot, finished_at, outcome in ('cancelled', 'replaced') as removed,
    asked_for is null as exact
from prescient.future_job_history tablesample system ($1) repeatable (1)
where finished_at >= $2 and finished_at < $3
