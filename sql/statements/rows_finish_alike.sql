-- rows_finish for rows of which all is alike: the outcome $6, no error, lateness $7 and duration $8. A third cheaper:
-- it joins no rows. Of each shard ($2) it takes what is in a range of ids ($3 to $4) and among $5; the ids are a filter
-- (hence the + 0), since one look into the index finds the range. $5 null: all rows of the ranges. Then the caller
-- rolls back unless count and sum of each shard are those of the rows it meant.
-- The first two conditions on f bound what is read, should the planner join the ranges to it and not it to them.
with gone as (
    delete from prescient.future_job f
    using unnest($2::smallint[], $3::bigint[], $4::bigint[]) as range (shard, first, last)
    where f.next_check_at = $1
        and f.shard = any ($2)
        and f.id between $10 and $11
        and f.shard = range.shard
        and f.id between range.first and range.last
        and ($5::bigint[] is null or f.id + 0 = any ($5))
    returning f.*
), archived as (
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, outcome, lateness, duration, runner
    )
    select
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at,
        check_count + case when $6::text in ('done', 'max_checks', 'horizon', 'past') then 1 else 0 end,
        error_count,
        last_error,
        spent + coalesce($8::bigint, 0) * interval '1 microsecond',
        payload, enqueued_at, enqueued_by, $6,
        $7::bigint * interval '1 microsecond',
        $8 * interval '1 microsecond',
        $9
    from gone
)
select shard, count(*), sum(id)::text as sum
from gone
group by shard
