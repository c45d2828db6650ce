-- Returns no row when the job is not paused.
update prescient.job
set paused_at = null,
    paused_by = null
where name = $1 and paused_at is not null
returning name
