-- Writes copies of rows of another store, given as JSON: rows of future_job, and for schedules also of
-- schedule and schedule_state ('' for other rows). Jobs that are paused there (paused_jobs) are paused here
-- before their rows can be checked. It returns the jobs that were not paused here.
create or replace function prescient.receive_rows(
    source      text,
    this        bigint,
    names       text[],
    rows        text[],
    schedules   text[],
    drops       text[],
    paused_jobs text[]
)
returns setof text
language plpgsql
set jit = off
as $$
#variable_conflict use_column
begin
    insert into prescient.transfer_in (source, batch, nth, job_exec, entity_name, entity_key, item_key, data, schedule, dropped)
    select
        receive_rows.source, this, g.nth, g.name, coalesce(k.entity_name, 'schedule'), coalesce(k.entity_key, g.schedule ->> 'id'), k.item_key,
        g.data, g.schedule, g.dropped
    from (
        select u.nth, u.name, nullif(u.data, '')::json as data, nullif(u.schedule, '')::json as schedule, nullif(u.dropped, '')::json as dropped
        from unnest(names, rows, schedules, drops) with ordinality as u (name, data, schedule, dropped, nth)
        offset 0 -- each is read once
    ) as g
    left join lateral json_to_record(g.data) as k (entity_name text, entity_key text, item_key text) on true
    on conflict (source, batch, nth) do nothing;

    return query
    insert into prescient.job as j (job, name, paused_at, paused_by)
    select prescient.find_job(u.name), u.name, statement_timestamp(),
        coalesce(left(nullif(current_setting('prescient_caller.actor', true), ''), 500), nullif(current_setting('role'), 'none'), session_user)
    from unnest(paused_jobs) as u (name)
    order by u.name collate "C"
    on conflict (name) do update
    set paused_at = excluded.paused_at,
        paused_by = excluded.paused_by
    where j.paused_at is null
    returning j.name;
end
$$;
