-- rows_move for rows of which all is alike: the slot $6, the kind $7, no error, duration $8. See rows_finish_alike.
with moved as (
    update prescient.future_job
    set next_check_at = $6,
        check_count = check_count + case when $7::text = 'next' then 1 else 0 end,
        error_count = case when $7 = 'next' then 0 else error_count end,
        spent = spent + coalesce($8::bigint, 0) * interval '1 microsecond'
    where next_check_at = $1
        and shard = any ($2::smallint[])
        and id between $3 and $4
        and id + 0 = any ($5::bigint[])
    returning shard
)
select shard, count(*), '' as sum
from moved
group by shard
