-- Returns the newest $3 rows of history of one entity, oldest first.
-- Called by jobs/admin.Client.EntityHistory.
select
    id, job_exec, entity_name, entity_key, coalesce(item_key, '') as item_key, item_key is null as anonymous,
    coalesce(group_key, '') as group_key, first_check_at, slot as next_check_at, check_count, error_count,
    coalesce(last_error, '') as last_error, (extract(epoch from spent) * 1000000)::bigint as spent, payload,
    enqueued_at, enqueued_by, outcome, finished_at,
    (extract(epoch from lateness) * 1000000)::bigint as lateness,
    (extract(epoch from duration) * 1000000)::bigint as duration,
    coalesce(runner, '') as runner,
    coalesce((
        select json_agg(json_build_object('slot', to_timestamp((e.value ->> 1)::bigint), 'runner', e.value ->> 2, 'error', e.value ->> 5) order by t.nth)
        from unnest(string_to_array(trace, chr(10))) with ordinality as t (line, nth)
        cross join lateral (select t.line::jsonb as value) as e
        where t.line like '["retry",%'
    ), '[]') as attempts
from (
    select h.*
    from prescient.future_job_history h
    where entity_name = $1 and entity_key = $2
    order by finished_at desc, id desc
    limit $3
) as h
order by finished_at, id
