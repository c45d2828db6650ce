-- Previews history_retry for the failed checks of job $1, entity $2 and key $3 since $4, at most $5. It leaves out
-- acknowledged ones, unless a key or a row is given. $6: its item key; $7: the id of the one row; null: every one.
-- It counts the checks, and those that stay in history, because their key waits already or comes back with a row that
-- ended before. The digest tells these checks from as many others, and
-- from the same ones that have failed again.
-- Called by jobs/admin.Client.PreviewRetry.
select
    count(*) as found,
    count(*) filter (where h.item_key is not null and (h.nth > 1 or exists (
        select
        from prescient.future_job f
        where f.entity_name = h.entity_name
            and f.entity_key = h.entity_key
            and f.job = prescient.find_job(h.job_exec)
            and f.item_key = h.item_key
    ))) as waiting,
    coalesce(sum(hashint8extended(h.id, (extract(epoch from h.finished_at) * 1000000)::bigint)), 0)::text as digest
from (
    select
        h.*,
        row_number() over (partition by h.entity_name, h.entity_key, h.job_exec, h.item_key order by h.finished_at, h.id) as nth
    from (
        select h.id, h.finished_at, h.job_exec, h.entity_name, h.entity_key, h.item_key
        from prescient.future_job_history h
        where h.outcome = 'failed'
            and h.job_exec <> 'schedule'
            and ($1::text is null or h.job_exec = $1)
            and ($2::text is null or h.entity_name = $2)
            and ($3::text is null or h.entity_key = $3)
            and h.finished_at >= $4
            and ($6::text is null or h.item_key = $6)
            and ($7::bigint is null or h.id = $7)
            and (h.ack is null or $3::text is not null or $7::bigint is not null)
        order by h.finished_at, h.id
        limit $5
    ) as h
) as h
