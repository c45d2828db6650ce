-- rows_move for rows of which all is alike: the slot $8, the kind $9, no error, duration $10, lateness $13; $11 is the clock, $12 goes into their traces. See
-- rows_finish_alike.
with earliest as materialized (
    select prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', $11::timestamptz) as slot
), moved as (
    update prescient.future_job f
    set next_check_at = greatest($8::timestamptz, (select slot from earliest)),
        check_count = f.check_count + case when $9::text = 'next' then 1 else 0 end,
        error_count = case when $9 = 'next' then 0 else f.error_count end,
        spent = f.spent + coalesce($10::bigint, 0)::double precision * interval '1 microsecond',
        trace = prescient.traced(f.trace, $12::text)
    where f.next_check_at = $1
        and f.job = any ($4::bigint[])
        and f.id between $5 and $6
        and f.id + 0 = any ($7::bigint[])
    returning f.job
), tallied as (
    insert into prescient.slot_tally (slot, token, part, job, bucket, rescheduled, late, spent)
    select
        $1, $2, $3, m.job, prescient.lateness_bucket($13), m.n,
        case when $13::double precision * interval '1 microsecond' > j.sla then m.n else 0 end,
        m.n * coalesce($10, 0)::double precision * interval '1 microsecond'
    from (select job, count(*) as n from moved group by job) as m
    left join prescient.job j on j.job = m.job
)
select 0::bigint as finished, count(*) as rescheduled, 0::bigint as failed
from moved
