-- Returns up to $1 jobs by name, after $3 if that is not null, or job $2 alone. A job is there once a check of it was enqueued.
-- Called by cmd/internal/serve/board.source.readJobs.
select name, paused_at, coalesce(paused_by, '') as paused_by, registered_at, (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job
where ($2::text is null or name = $2)
    and ($3::text is null or name > $3)
order by name
limit $1
