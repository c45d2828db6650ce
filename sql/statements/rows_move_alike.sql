-- rows_move for rows of which all is alike: the slot $8, the kind $9, no error, duration $10; $11 is the clock. See
-- rows_finish_alike.
with earliest as materialized (
    select prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', $11::timestamptz) as slot
), moved as (
    update prescient.future_job f
    set next_check_at = greatest($8::timestamptz, (select slot from earliest)),
        check_count = f.check_count + case when $9::text = 'next' then 1 else 0 end,
        error_count = case when $9 = 'next' then 0 else f.error_count end,
        spent = f.spent + coalesce($10::bigint, 0) * interval '1 microsecond'
    where f.next_check_at = $1
        and f.job = any ($4::bigint[])
        and f.id between $5 and $6
        and f.id + 0 = any ($7::bigint[])
    returning f.job
), tallied as (
    insert into prescient.slot_tally (slot, token, part, job, rescheduled, spent)
    select $1, $2, $3, job, count(*), count(*) * coalesce($10, 0) * interval '1 microsecond'
    from moved
    group by job
)
select 0::bigint as finished, count(*) as rescheduled, 0::bigint as failed
from moved
