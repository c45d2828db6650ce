-- Creates a schedule, or changes it to what is given. Returns created, updated or unchanged.
-- It reads no crontab: the first check of the schedule does, in the next slot, and publishes the instants since this
-- call. A field of the crontab, or a zone that it names, that cannot be read is the error of that check; see status and
-- why.
-- The instants begin anew as in jobs/schedule.Store.Update. A null paused keeps a pause.
-- A runner may not write sql and role.
create or replace function prescient.set_schedule(
    id        text,
    crontab   text,
    timezone  text default '',
    sql       text default null,
    role      text default null,
    timeout   interval default null,
    job_exec  text default null,
    notify    text default null,
    text      text default null,
    misfire   text default 'all',
    deadline  interval default null,
    spread    interval default '0',
    starts_at timestamptz default null,
    ends_at   timestamptz default null,
    max_runs  integer default null,
    exclude   text[] default null,
    paused    boolean default null,
    payload   jsonb default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    was   prescient.schedule;
    given prescient.schedule;
    whole_anchor timestamptz;
    at    timestamptz := statement_timestamp();
    pauser text := prescient.schedule_pauser();
    action text := 'updated';
    wrong record;
begin
    -- Instants are whole seconds, and so are the bounds of a schedule of Go. Rounded up, a bound leaves in the same instants.
    -- The rules are for the rounded bounds.
    starts_at := date_trunc('second', starts_at + interval '999999 microseconds');
    ends_at := date_trunc('second', ends_at + interval '999999 microseconds');
    wrong := prescient.schedule_mistake(
        id, crontab, timezone, sql, role, timeout, job_exec, notify, text, misfire, deadline, spread, starts_at, ends_at, max_runs,
        exclude, payload
    );
    if wrong.name is not null then
        raise exception '% is %; it must %', wrong.name, wrong.given, wrong.rule
            using errcode = case wrong.given when 'null' then 'null_value_not_allowed' else 'invalid_parameter_value' end,
                hint = wrong.hint;
    end if;
    -- The lock that every change of a schedule takes first. The upsert waits for another session that creates it.
    insert into prescient.schedule as s (
        id, crontab, timezone, payload, misfire, deadline, spread, starts_at, ends_at, max_runs, exclude, paused, anchor
    )
    values (
        set_schedule.id, set_schedule.crontab, set_schedule.timezone, set_schedule.payload, set_schedule.misfire, set_schedule.deadline,
        set_schedule.spread, set_schedule.starts_at, set_schedule.ends_at, set_schedule.max_runs, set_schedule.exclude,
        coalesce(set_schedule.paused, false), coalesce(set_schedule.starts_at, date_trunc('second', clock_timestamp()))
    )
    on conflict (id) do nothing;
    if found then
        action := 'created';
    end if;
    select * into was from prescient.schedule s where s.id = set_schedule.id for update;
    if not found then
        raise exception 'schedule % was deleted meanwhile: call set_schedule again', set_schedule.id using errcode = 'serialization_failure';
    end if;
    -- A schedule of another writer may have a fraction, which Go refuses and no instant has.
    whole_anchor := date_trunc('second', was.anchor);
    -- A statement of its own, because a runner may not write these columns.
    if (was.sql, was.role, was.timeout) is distinct from (set_schedule.sql, set_schedule.role, set_schedule.timeout) then
        update prescient.schedule s
        set sql = set_schedule.sql,
            role = set_schedule.role,
            timeout = set_schedule.timeout,
            job_exec = set_schedule.job_exec,
            notify = set_schedule.notify,
            text = set_schedule.text
        where s.id = set_schedule.id;
    end if;
    update prescient.schedule s
    set crontab = set_schedule.crontab,
        timezone = set_schedule.timezone,
        payload = set_schedule.payload,
        job_exec = set_schedule.job_exec,
        notify = set_schedule.notify,
        text = set_schedule.text,
        misfire = set_schedule.misfire,
        deadline = set_schedule.deadline,
        spread = set_schedule.spread,
        starts_at = set_schedule.starts_at,
        ends_at = set_schedule.ends_at,
        max_runs = set_schedule.max_runs,
        exclude = set_schedule.exclude,
        anchor = whole_anchor,
        paused = coalesce(set_schedule.paused, s.paused),
        paused_at = case when coalesce(set_schedule.paused, s.paused) then coalesce(s.paused_at, at) end,
        paused_by = case when coalesce(set_schedule.paused, s.paused) then coalesce(s.paused_by, pauser) end
    where s.id = set_schedule.id
    returning s.* into given;
    if action = 'updated' then
        if given is not distinct from was then
            return 'unchanged';
        end if;
        update prescient.schedule s
        set version = s.version + 1,
            updated_at = statement_timestamp()
        where s.id = set_schedule.id;
    end if;
    if given.paused then
        perform prescient.wait_for_schedule(set_schedule.id, true);
    elsif action = 'created'
        or was.paused
        or (was.crontab, was.timezone, was.spread, was.starts_at, was.ends_at, was.max_runs, was.exclude)
            is distinct from (given.crontab, given.timezone, given.spread, given.starts_at, given.ends_at, given.max_runs, given.exclude)
    then
        perform prescient.wait_for_schedule(set_schedule.id, false);
    end if;
    return action;
end
$$;
revoke all on function prescient.set_schedule(text, text, text, text, text, interval, text, text, text, text, interval, interval, timestamptz, timestamptz, integer, text[], boolean, jsonb) from public;
