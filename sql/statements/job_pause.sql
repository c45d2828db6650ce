-- Pauses a job. It returns no row if the job is paused already.
-- The actor has paused it or, if the transaction has none, the role.
-- Called by jobs/admin.Client.Pause.
insert into prescient.job as j (job, name, paused_at, paused_by)
values (
    prescient.find_job($1), $1, clock_timestamp(),
    coalesce(left(nullif(current_setting('prescient_caller.actor', true), ''), 500), nullif(current_setting('role'), 'none'), session_user)
)
on conflict (name) do update
set paused_at = excluded.paused_at,
    paused_by = excluded.paused_by
where j.paused_at is null
returning name
