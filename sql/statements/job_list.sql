-- Returns waiting checks by slot. A filter by entity uses an index. Other filters read the slots
-- from $3 to $4. The page begins behind a position: a slot ($6), a job number ($7) and an id ($8). It
-- ends with the second row after $10 bytes of payloads. That second row tells the caller that there
-- are more.
-- Called by jobs/admin.Client.ListPage.
select
    id, job_exec, next_check_at, {{page.shown}}, job
from (
    select
        page.*,
        sum(octet_length(payload::text)) over (
            order by next_check_at, job, id rows between unbounded preceding and 2 preceding
        ) as bytes
    from (
        select
            id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, next_check_at,
            {{shown}}, job
        from prescient.future_job f
        where next_check_at >= $3
            and next_check_at < $4
            and ($1::text is null or job = (select prescient.find_job($1)))
            and ($2::text is null or entity_name = $2)
            and ($9::text is null or entity_key = $9)
            and ($11::text is null or item_key = $11)
            and (next_check_at, job, id) > ($6::timestamptz, $7::bigint, $8::bigint)
        order by next_check_at, job, id
        limit $5
    ) as page
) as page
where coalesce(bytes, 0) < $10
order by next_check_at, job, id
