-- Moves rows of a claim to later slots, and counts them for the claim ($2) by job. kind: next (the check asked for it),
-- retry (it failed), defer (it did not run). $12 replaces payloads where it is not null, $14 goes into their traces. A slot that has begun by now is
-- none to move to; $13 is the clock, for replays. Rows that are no longer in the slot are their owner's again.
with outcome as (
    select *
    from unnest($7::bigint[], $8::text[], $9::timestamptz[], $10::text[], $11::bigint[], $12::jsonb[], $14::text[], $15::bigint[])
        as o (id, kind, next_check_at, error, duration, payload, entry, lateness)
), earliest as materialized (
    select prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', $13::timestamptz) as slot
), moved as (
    update prescient.future_job f
    set next_check_at = greatest(o.next_check_at, (select slot from earliest)),
        check_count = case o.kind when 'next' then f.check_count + 1 else f.check_count end,
        error_count = case o.kind when 'next' then 0 when 'retry' then f.error_count + 1 else f.error_count end,
        last_error = coalesce(o.error, f.last_error),
        payload = coalesce(o.payload, f.payload),
        spent = f.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
        trace = prescient.traced(f.trace, o.entry)
    from outcome o
    where f.next_check_at = $1
        and f.job = any ($4::bigint[])
        and f.id between $5 and $6
        and f.id = o.id
    returning f.job, o.kind, o.error, o.duration, o.lateness
), tallied as (
    insert into prescient.slot_tally (slot, token, part, job, bucket, rescheduled, failed, late, error, spent)
    select
        $1, $2, $3, m.job, prescient.lateness_bucket(m.lateness) as bucket,
        count(*) filter (where m.kind <> 'retry'), count(*) filter (where m.kind = 'retry'),
        count(*) filter (where m.lateness::double precision * interval '1 microsecond' > j.sla),
        min(m.error) filter (where m.kind = 'retry'),
        coalesce(sum(m.duration), 0)::double precision * interval '1 microsecond'
    from moved m
    left join prescient.job j on j.job = m.job
    group by m.job, bucket
)
select
    0::bigint as finished,
    count(*) filter (where kind <> 'retry') as rescheduled,
    count(*) filter (where kind = 'retry') as failed
from moved
