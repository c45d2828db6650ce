-- Returns a page of history that filters narrow down. The page ends with the second row after $8 bytes
-- of payloads. That second row tells the caller that there are more.
-- $9: the page also has the rows that ended at $2 and have a smaller id.
-- It reads the journals of the rows of the page alone.
-- Called by jobs/admin.Client.HistoryPage.
select
    id, job_exec, slot as next_check_at,
    {{shown}},
    outcome, finished_at,
    (extract(epoch from lateness) * 1000000)::bigint as lateness,
    (extract(epoch from duration) * 1000000)::bigint as duration,
    coalesce(runner, '') as runner,
    coalesce((
        select json_agg(json_build_object('slot', to_timestamp((e.value ->> 1)::bigint), 'runner', e.value ->> 2, 'error', e.value ->> 5) order by t.nth)
        from unnest(string_to_array(journal, chr(10))) with ordinality as t (line, nth)
        cross join lateral (select t.line::jsonb as value) as e
        where t.line like '["retry",%'
    ), '[]') as attempts,
    coalesce(ack, '') as ack
from (
    select
        page.*,
        sum(octet_length(payload::text)) over (
            order by finished_at desc, id desc rows between unbounded preceding and 2 preceding
        ) as bytes
    from (
        select *
        from prescient.future_job_history
        where finished_at >= $1
            and finished_at <= $2
            and (finished_at < $2 or id < $9)
            and ($3::text is null or job_exec = $3)
            and ($4::text is null or outcome = $4)
            and ($6::text is null or entity_name = $6)
            and ($7::text is null or entity_key = $7)
            and ($10::text is null or item_key = $10)
        order by finished_at desc, id desc
        limit $5
    ) as page
) as page
where coalesce(bytes, 0) < $8
order by finished_at desc, id desc
