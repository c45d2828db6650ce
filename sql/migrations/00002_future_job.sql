-- The jobs by number, and the cache of pending checks: nothing old in it.

-- +goose Up
create table prescient.job (
    job       bigint not null,
    name      text   not null,
    paused_at timestamptz,
    paused_by text,
    registered_at timestamptz,
    sla interval,
    constraint job_pkey primary key (job),
    -- Every enqueue, cancel and reschedule finds its job by name.
    constraint job_name_key unique (name),
    -- With the keys of future_job the sum stays below what a b-tree entry may hold.
    constraint job_name check (octet_length(name) between 1 and 200),
    constraint job_paused check ((paused_at is null) = (paused_by is null))
);

comment on table prescient.job is 'the number of each job_exec that was ever enqueued, paused or registered; a name keeps its number for ever';
comment on column prescient.job.paused_at is 'since when no run claims rows of the job; null: it is not paused';
comment on column prescient.job.registered_at is 'when a run last knew the job, to the hour; null: none ever did';
comment on column prescient.job.sla is 'how long after its slot a check is to begin at the latest, as the last run had it registered; null: nothing is promised';

-- The number of a job: that of its row, else the one that it will get.
create function prescient.number_of(job_exec text)
returns bigint
language sql
stable
as $$
    select coalesce((select j.job from prescient.job j where j.name = job_exec), hashtextextended(job_exec, 0))
$$;

-- number_of, for those who write rows: a new name gets its row. A number follows from the name, so nobody waits for a
-- transaction that brings the same new name and goes on: it leaves the row of table job to that one. Where that is
-- rolled back, the row is written by the next who comes, or by the first runner that knows the job.
-- +goose StatementBegin
create function prescient.job_number(job_exec text)
returns bigint
language plpgsql
as $$
declare
    number bigint;
    other  text;
begin
    select j.job into number from prescient.job j where j.name = job_exec;
    if found then
        return number;
    end if;
    number := hashtextextended(job_exec, 0);
    select j.name into other from prescient.job j where j.job = number;
    if found and other <> job_exec then
        raise exception 'jobs % and % have the same number', quote_literal(job_exec), quote_literal(other)
            using errcode = 'unique_violation', hint = 'Give one of them another name.';
    end if;
    if pg_try_advisory_xact_lock(hashtextextended('prescient.job ' || job_exec, 0)) then
        insert into prescient.job (job, name) values (number, job_exec) on conflict do nothing;
    end if;
    return number;
end
$$;
-- +goose StatementEnd

-- For runs: the numbers of the jobs they know, and that they know them. slas are in microseconds; null: none. A row that
-- somebody has locked, to pause the job perhaps, is left to a later run.
-- +goose StatementBegin
create function prescient.register_jobs(names text[], slas bigint[])
returns table (name text, job bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    clock timestamptz := clock_timestamp();
begin
    -- In the order of their names, so that two calls never wait for each other in a circle.
    return query
    select g.name, prescient.job_number(g.name)
    from (select distinct u.name from unnest(names) as u (name) order by u.name) as g;

    update prescient.job j
    set registered_at = clock,
        sla = stale.sla
    from (
        select o.job, g.sla::double precision * interval '1 microsecond' as sla
        from prescient.job o
        join unnest(names, slas) as g (name, sla) on g.name = o.name
        where o.registered_at is null
            or o.registered_at < clock - interval '1 hour'
            or o.sla is distinct from g.sla::double precision * interval '1 microsecond'
        for update of o skip locked
    ) as stale
    where j.job = stale.job;
end
$$;
-- +goose StatementEnd

-- The trace of a row is what has happened to it since it was enqueued, oldest first: a line of JSON for each check that did
-- not end it, and for each change. Somebody's change is an object: what (rescheduled, pushed_back, kept, width, retried, moved,
-- cancelled, replaced), at in milliseconds, slot (the one that the row was in) in seconds since 1970, by, app and actor; of moved, the stores from
-- and to. What a run did is an array, which is shorter: what (next, retry, deferred), slot, run, and of a check how late it was in
-- milliseconds, how long it took in microseconds, and its error; of what was not checked, when; and where the next slot was chosen
-- by what was learned, that slot, the one that the check had asked for, how many of a hundred rows like it have ended by the former, and
-- the class that it is of. What a check without an error leaves that asked for another is 12 characters, and what was learned: see trace_check.
create function prescient.trace_entry(what text, slot timestamptz)
returns text
language sql
stable
as $$
    select json_strip_nulls(json_build_object(
        'what', what,
        'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
        'slot', extract(epoch from slot)::bigint,
        -- The caller's role, also in a function that runs with the owner's rights.
        'by', coalesce(nullif(current_setting('role'), 'none'), session_user),
        'app', nullif(current_setting('application_name'), ''),
        'actor', left(nullif(current_setting('prescient_trace.actor', true), ''), 200)
    ))::text
$$;

-- An entry that was made for slot 'epoch', for another one. It depends on nothing else, and so may be a part of any statement.
create function prescient.trace_in(entry text, slot timestamptz)
returns text
language sql
immutable
parallel safe
as $$
    select replace(entry, '"slot":0', '"slot":' || extract(epoch from slot - timestamptz '1970-01-01 00:00:00+00')::bigint)
$$;

-- A trace with one more entry, of which the newest 20 are kept; null: none. In SQL, so that it is a part of the statement
-- that uses it. A text is a third of an array of them.
create function prescient.traced(trace text, entry text)
returns text
language sql
immutable
as $$
    select case
        when entry is null then trace
        when trace is null then entry
        when octet_length(trace) < 259 then trace || chr(10) || entry
        when octet_length(trace) = 259 and strpos(trace, '"') = 0 then right(trace, -13) || chr(10) || entry -- 20 short ones
        when length(trace) - length(replace(trace, chr(10), '')) >= 19 then right(trace, -strpos(trace, chr(10))) || chr(10) || entry
        else trace || chr(10) || entry
    end
$$;

-- What the columns of a row may be. Domains: a check of the table would be read anew from the catalog by every statement that writes a
-- row, for all columns, and was a quarter of the time that the server needs for an enqueue.
-- The sum of the names stays below what a b-tree entry may hold.
create domain prescient.entity_name as text constraint future_job_names check (octet_length(value) between 1 and 200);
create domain prescient.entity_key as text constraint future_job_names check (octet_length(value) between 1 and 500);
create domain prescient.item_key as text constraint future_job_names check (octet_length(value) <= 500);
create domain prescient.group_key as text constraint future_job_names check (octet_length(value) between 1 and 500);
-- Also keeps out the infinities, which the driver cannot scan.
create domain prescient.instant as timestamptz constraint future_job_in_range
    check (value between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00');
create domain prescient.counter as integer constraint future_job_counts check (value >= 0);

create table prescient.future_job (
    id             bigint                not null generated always as identity,
    job            bigint                not null,
    entity_name    prescient.entity_name not null,
    entity_key     prescient.entity_key  not null,
    item_key       prescient.item_key             default '',
    group_key      prescient.group_key,
    first_check_at prescient.instant     not null,
    next_check_at  prescient.instant     not null,
    check_count    prescient.counter     not null default 0,
    error_count    prescient.counter     not null default 0,
    last_error     text,
    spent          interval              not null default '0',
    -- Beside what a move changes, too: of an update WAL has what lies between the first and the last change.
    trace          text,
    payload        jsonb,
    enqueued_at    timestamptz           not null default clock_timestamp(),
    -- The caller's role: current_user is the owner in a function that runs with the owner's rights.
    enqueued_by    text                  not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    enqueued_app   text                           default nullif(current_setting('application_name'), ''),
    enqueued_actor text                           default left(nullif(current_setting('prescient_trace.actor', true), ''), 500),
    enqueued_trace text                           default left(nullif(current_setting('prescient_trace.parent', true), ''), 500),
    asked_for      timestamptz,

    -- The slot index: a run reads, deletes and moves rows by equality on the slot and the job, in the order of ids.
    -- id has no index of its own; each further index costs 30-100 % of the write rate.
    constraint future_job_pkey primary key (next_check_at, job, id),

    constraint future_job_on_grid check (
        next_check_at = date_bin(interval '15 minutes', next_check_at, timestamptz '1970-01-01 00:00:00+00')
    )
)
-- A slot's rows leave all at once; vacuum soon, so that the space serves the next slot.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column prescient.future_job.job is 'the number of the job_exec, see table job and function number_of';
comment on column prescient.future_job.item_key is 'tells apart two checks of one job on one entity; null: anonymous, found by nobody';
comment on column prescient.future_job.group_key is 'rows of one group are checked together by a job that is registered so; null: the entity is its own group';
comment on column prescient.future_job.first_check_at is 'the first slot the row waited for; nothing changes it';
comment on column prescient.future_job.check_count is 'checks that returned without an error';
comment on column prescient.future_job.error_count is 'errors in a row since the last check without one';
comment on column prescient.future_job.enqueued_app is 'the application_name of who enqueued it; enqueued_actor: the setting prescient_trace.actor, 500 characters of it at the most';
comment on column prescient.future_job.enqueued_trace is 'the trace that it was enqueued in, as a W3C traceparent: the setting prescient_trace.parent, 500 characters of it at the most';
comment on column prescient.future_job.asked_for is 'the instant that was asked for; null: first_check_at';
comment on column prescient.future_job.trace is 'what has happened to it, see function trace_entry; null: nothing';
comment on column prescient.future_job.spent is 'run time of all checks so far';

-- The natural key: enqueue's on conflict, cancel and reschedule by key, cancel by entity (its first two columns).
create unique index future_job_key
on prescient.future_job (entity_name, entity_key, job, item_key)
where item_key is not null;

-- group_read: the due rows of a group.
create index future_job_group
on prescient.future_job (group_key, next_check_at)
where group_key is not null;

update prescient.setting
set schema_version = 2;

-- +goose Down
update prescient.setting
set schema_version = 1;
drop table prescient.future_job;
drop domain prescient.counter;
drop domain prescient.instant;
drop domain prescient.group_key;
drop domain prescient.item_key;
drop domain prescient.entity_key;
drop domain prescient.entity_name;
drop function prescient.traced(text, text);
drop function prescient.trace_in(text, timestamptz);
drop function prescient.trace_entry(text, timestamptz);
drop function prescient.register_jobs(text[], bigint[]);
drop function prescient.job_number(text);
drop function prescient.number_of(text);
drop table prescient.job;
