-- Moves rows of one shard to later slots. kind: next (the check asked for it), retry (it failed), defer (it did
-- not run). $10 replaces payloads where it is not null. Rows that are no longer in the slot are their owner's again.
with outcome as (
    select *
    from unnest($5::bigint[], $6::text[], $7::timestamptz[], $8::text[], $9::bigint[], $10::jsonb[])
        as o (id, kind, next_check_at, error, duration, payload)
), moved as (
    update prescient.future_job f
    set next_check_at = o.next_check_at,
        check_count = case o.kind when 'next' then f.check_count + 1 else f.check_count end,
        error_count = case o.kind when 'next' then 0 when 'retry' then f.error_count + 1 else f.error_count end,
        last_error = coalesce(o.error, f.last_error),
        payload = coalesce(o.payload, f.payload),
        spent = f.spent + coalesce(o.duration, 0) * interval '1 microsecond'
    from outcome o
    where f.next_check_at = $1
        and f.shard = $2
        and f.id = o.id
        and f.id between $3 and $4
    returning o.kind
)
select
    count(*) filter (where kind <> 'retry') as rescheduled,
    count(*) filter (where kind = 'retry') as failed
from moved
