-- Does what rows_finish does, for Citus. Citus would run the parts of rows_finish apart, and send what
-- one part has found for another to all servers. But an insert of what a delete returns stays where
-- the rows are.
create or replace function prescient.finish_rows_apart(
    at         timestamptz,
    own        bigint,
    this       bigint,
    numbers    bigint[],
    first_id   bigint,
    last_id    bigint,
    ids        bigint[],
    outcomes   text[],
    errors     text[],
    latenesses bigint[],
    durations  bigint[],
    runner     text,
    names      text[],
    clock      timestamptz,
    states     text[],
    out finished    bigint,
    out rescheduled bigint,
    out failed      bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    gone_ids   bigint[] := '{}';
    gone_names text[]   := '{}';
    slas       interval[];
    entry      record;
begin
    rescheduled := 0;
    slas := array(
        select j.sla
        from unnest(numbers) with ordinality as n (job, nth)
        left join prescient.job j on j.job = n.job
        order by n.nth
    );
    for entry in
        with gone as (
            delete from prescient.future_job f
            using unnest(ids, outcomes, errors, latenesses, durations, states)
                as o (id, outcome, error, lateness, duration, state)
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id = o.id
            returning f.*, o.outcome, o.error, o.lateness, o.duration, o.state
        )
        insert into prescient.future_job_history (
            id, job_exec, slot, {{kept}},
            check_count, error_count, last_error, spent, payload, request, journal, outcome, lateness, duration, runner
        )
        select
            g.id, j.name, g.next_check_at, {{g.kept}},
            prescient.checks_after(g.check_count, g.outcome), prescient.errors_after(g.error_count, g.outcome),
            coalesce(g.error, g.last_error), g.spent + prescient.microseconds(coalesce(g.duration, 0)),
            coalesce(g.state::prescient.payload, g.payload), g.request, g.journal, g.outcome,
            prescient.microseconds(g.lateness), prescient.microseconds(g.duration), finish_rows_apart.runner
        from gone g
        join unnest(numbers, names) as j (job, name) on j.job = g.job
        returning id, job_exec, entity_name, entity_key, item_key, request, outcome
    loop
        gone_ids := gone_ids || entry.id;
        gone_names := gone_names || entry.job_exec;
        if (entry.request).check_at is not null then
            perform prescient.honour(
                numbers[array_position(names, entry.job_exec)], entry.entity_name, entry.entity_key, entry.item_key, at,
                entry.request, clock, entry.outcome
            );
        end if;
    end loop;
    if cardinality(gone_ids) < cardinality(ids) then
        perform prescient.require_recorded(at, numbers, first_id, last_id, ids);
    end if;
    insert into prescient.slot_progress (slot, token, part, job, bucket, finished, failed, late, error, spent)
    select
        at, own, this, j.job, prescient.lateness_bucket(o.lateness) as bucket,
        count(*) filter (where o.outcome <> 'failed'), count(*) filter (where o.outcome = 'failed'),
        count(*) filter (where prescient.microseconds(o.lateness) > j.sla),
        min(o.error) filter (where o.outcome = 'failed'),
        prescient.microseconds(coalesce(sum(o.duration), 0)::bigint)
    from unnest(gone_ids, gone_names) as g (id, name)
    join unnest(numbers, names, slas) as j (job, name, sla) on j.name = g.name
    join unnest(ids, outcomes, errors, latenesses, durations) as o (id, outcome, error, lateness, duration) on o.id = g.id
    group by j.job, bucket;
    select count(*) filter (where o.outcome <> 'failed'), count(*) filter (where o.outcome = 'failed')
    into finished, failed
    from unnest(gone_ids) as g (id)
    join unnest(ids, outcomes) as o (id, outcome) on o.id = g.id;
end
$$;
