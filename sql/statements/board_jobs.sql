-- Returns jobs by name: those of $1, or, if that is null, up to $2 jobs after $3 whose name has $4 in it, in upper or
-- lower case, without those of $5. With $6 it returns the last ones before $3, backwards; an empty $3 is the end. A job
-- is there once a check of it was enqueued. Each branch reads the index of names in its direction.
-- Called by cmd/internal/serve/board.source.readJobs.
select name, paused_at, coalesce(paused_by, '') as paused_by, registered_at, (extract(epoch from sla) * 1000000)::bigint as sla
from (
    (
        select name, paused_at, paused_by, registered_at, sla
        from prescient.job
        where name = any ($1::text[])
    )
    union all
    (
        select name, paused_at, paused_by, registered_at, sla
        from prescient.job
        where $1::text[] is null
            and not $6::boolean
            and name > $3
            and strpos(lower(name), lower($4)) > 0
            and ($5::text[] is null or name <> all ($5))
        order by name
        limit $2::bigint
    )
    union all
    (
        select name, paused_at, paused_by, registered_at, sla
        from prescient.job
        where $1::text[] is null
            and $6
            and ($3 = '' or name < $3)
            and strpos(lower(name), lower($4)) > 0
            and ($5::text[] is null or name <> all ($5))
        order by name desc
        limit $2
    )
) as found
order by case when not $6 then name end, name desc
