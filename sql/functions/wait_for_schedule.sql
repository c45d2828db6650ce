-- Lets the row of a locked schedule wait for its first instant from now on, or ends the row if the schedule is paused.
-- The row keeps what the one before it knew: the last published instant and, if the schedule has max_runs, how many there
-- were.
-- Called by set_schedule and pause_schedule.
create or replace function prescient.wait_for_schedule(schedule text, paused boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
declare
    known  jsonb;
    begins timestamptz;
begin
    select jsonb_build_object('last', f.payload -> 'last', 'runs', f.payload -> 'runs')
    into known
    from prescient.future_job f
    where f.job = (select prescient.find_job('schedule'))
        and f.entity_name = 'schedule'
        and f.entity_key = schedule
        and f.item_key = ''
    for update;
    if exists (select from prescient.schedule s where s.id = schedule and s.max_runs is null) then
        known := known - 'runs'; -- they are counted only while there is a limit
        update prescient.schedule_state d
        set runs = 0
        where d.id = schedule and d.runs > 0;
    end if;
    if paused then
        if known is not null then
            insert into prescient.schedule_state as d (id, dropped, runs, last_at)
            values (schedule, 0, coalesce((known ->> 'runs')::bigint, 0), to_timestamp((known ->> 'last')::bigint))
            on conflict (id) do update
            set runs = excluded.runs,
                last_at = coalesce(excluded.last_at, d.last_at);
            perform prescient.cancel('schedule', 'schedule', schedule);
        end if;
        return;
    end if;
    -- Not before the row is locked: a run that had it has published what was due by then.
    begins := date_trunc('second', clock_timestamp());
    if known is null then
        select jsonb_build_object('last', extract(epoch from d.last_at)::bigint, 'runs', nullif(d.runs, 0))
        into known
        from prescient.schedule_state d
        where d.id = schedule;
    end if;
    perform prescient.enqueue(
        job_exec => 'schedule', entity_name => 'schedule', entity_key => schedule, check_at => begins, on_conflict => 'replace',
        payload => jsonb_strip_nulls(coalesce(known, '{}') || jsonb_build_object('from', extract(epoch from begins)::bigint))
    );
end
$$;
revoke all on function prescient.wait_for_schedule(text, boolean) from public;
