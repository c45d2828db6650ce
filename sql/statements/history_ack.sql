-- Acknowledges that rows of history failed, because of $8: those that ended at or after $4 and before $5 of job $1, entity $2 and key $3,
-- with item key $6 and id $7. Null: every one. It takes at most $9 rows, the oldest first, and returns their number,
-- and how many it has found.
-- Called by jobs/admin.Client.ack.
with failed as materialized (
    select h.id, h.finished_at
    from prescient.future_job_history h
    where h.outcome = 'failed'
        and h.ack is null
        and ($1::text is null or h.job_exec = $1)
        and ($2::text is null or h.entity_name = $2)
        and ($3::text is null or h.entity_key = $3)
        and h.finished_at >= $4
        and h.finished_at < $5
        and ($6::text is null or h.item_key = $6)
        and ($7::bigint is null or h.id = $7)
    order by h.finished_at, h.id
    limit $9
), acked as (
    update prescient.future_job_history h
    set ack = rtrim(prescient.journal_in(prescient.journal_entry('acked', timestamptz 'epoch'), h.slot), '}')
            || ',"because":' || to_json($8::text) || '}'
    from failed f
    where h.outcome = 'failed' and h.ack is null and h.finished_at = f.finished_at and h.id = f.id
    returning 1
)
select (select count(*) from acked), (select count(*) from failed)
