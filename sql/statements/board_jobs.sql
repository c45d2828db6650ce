-- Returns jobs by name: those of $1, or, if that is null, up to $2 jobs after $3 whose name has $4 in it, in upper or
-- lower case, without those of $5. A job is there once a check of it was enqueued.
-- Called by cmd/internal/serve/board.source.readJobs.
select name, paused_at, coalesce(paused_by, '') as paused_by, registered_at, (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job
where $1::text[] is null
    and name > $3
    and strpos(lower(name), lower($4)) > 0
    and ($5::text[] is null or name <> all ($5))
    or name = any ($1)
order by name
limit case when $1::text[] is null then $2::bigint end
