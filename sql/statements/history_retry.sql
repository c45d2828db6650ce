-- Puts failed checks back into the slot for instant $6 with a clean error count; they leave history and keep their
-- id. A key that waits already stays as it is, and so does its failed row.
with failed as (
    select h.tableoid as part, h.ctid as place, h.*
    from prescient.future_job_history h
    where h.outcome = 'failed'
        and ($1::text is null or h.job_exec = $1)
        and ($2::text is null or h.entity_name = $2)
        and ($3::text is null or h.entity_key = $3)
        and h.finished_at >= $4
    order by h.finished_at
    limit $5
    for update
), back as (
    insert into prescient.future_job (
        id, job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, check_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace
    )
    overriding system value
    select
        id, prescient.job_number(job_exec), entity_name, entity_key, item_key, group_key, first_check_at, prescient.slot_target($6, $7), check_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within,
        prescient.traced(
            prescient.traced(trace, json_build_array(
                'failed', extract(epoch from slot)::bigint, runner, (extract(epoch from lateness) * 1000)::bigint,
                (extract(epoch from duration) * 1000000)::bigint, left(last_error, 200)
            )::text),
            prescient.trace_entry('retried', slot)
        )
    from failed
    on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
    returning id
), gone as (
    delete from prescient.future_job_history h
    using failed f, back b
    where h.tableoid = f.part and h.ctid = f.place and f.id = b.id
)
select
    (select count(*) from back) as retried,
    (select count(*) from failed) - (select count(*) from back) as waiting_already
