-- rows_finish for rows of which all is alike: the outcome $6, no error, lateness $7 and duration $8. A third cheaper:
-- it joins nothing. The ids are a filter (hence the + 0), since one look into the index finds the range of a page.
-- $5 null: all rows of the range. Then the caller rolls back unless count and sum are those of the rows it meant.
with gone as (
    delete from prescient.future_job
    where next_check_at = $1
        and shard = $2
        and id between $3 and $4
        and ($5::bigint[] is null or id + 0 = any ($5))
    returning *
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
select count(*), coalesce(sum(id), 0)::text as sum
from gone
