-- This schema as one store among others: whether it is being drained, and rows on their way from one store to another.
--
-- No transaction spans two stores. Rows go from one, the source, to another, the target, in batches, by five messages, each of which
-- commits by itself and may be repeated:
--
--   1. store_rows, store_schedules: rows are read in the source, where they wait on;
--   2. receive_rows: the target has copies of them, in store_in, which nobody runs;
--   3. give_rows: the source deletes those that are as they were when they were read, and notes in store_out which. Up to here they
--      are the source's rows, and from here on the target's;
--   4. settle_rows: the target lets those wait that were given, and drops the other copies;
--   5. store_forget: the source deletes its note.
--
-- So a row is to be found at any moment, in the source or after that in the target: cancel in the target finds copies, too.
-- Whoever moves rows of a source has put a number of his own into its setting, and give_rows fails for who had that place before. A note
-- in store_out is then of a batch to be settled, and copies that were there before he did so, and have no note after it, are of a batch that
-- is never given.

-- +goose Up
alter table prescient.setting
    add column store          text,
    add column draining_since timestamptz,
    add column draining_by    text,
    add column mover          bigint;
alter table prescient.setting
    add constraint setting_draining check ((draining_since is null) = (draining_by is null));

comment on column prescient.setting.store is 'tells this store from others; given when rows are first moved from it or to it';
comment on column prescient.setting.draining_since is 'since when rows are to be put into other stores; null: the store is not drained';
comment on column prescient.setting.mover is 'who may take rows away to other stores: the last one who began to';

create table prescient.store_out (
    batch       bigint      not null,
    target      text        not null,
    source_name text        not null,
    target_name text        not null,
    given       integer[]   not null,
    given_at    timestamptz not null default clock_timestamp(),
    constraint store_out_pkey primary key (batch)
);

comment on table prescient.store_out is 'batches of rows that were given to other stores, where they do not wait yet';
comment on column prescient.store_out.given is 'which of the batch, by their numbers in store_in of the target';
comment on column prescient.store_out.source_name is 'what this store is called by who moves the rows; target_name: the other one';

create table prescient.store_in (
    source      text    not null,
    batch       bigint  not null,
    nth         integer not null,
    job_exec    text    not null,
    entity_name text    not null,
    entity_key  text    not null,
    item_key    text,
    data        json,
    schedule    json,
    dropped     json,
    outcome     text,
    told        text,
    constraint store_in_pkey primary key (source, batch, nth)
);

comment on table prescient.store_in is 'copies of rows of other stores, which are to wait here when they were given';
comment on column prescient.store_in.data is 'the row of future_job, and null_payload where its payload is the null of JSON; null: a schedule that does not wait';
comment on column prescient.store_in.schedule is 'the row of schedule that it stands for, and of schedule_drop; null: none';
comment on column prescient.store_in.outcome is 'how the row ends when it is given: somebody has cancelled it; told: that, for its trace, of slot 0';

-- end_by_key: a copy that is cancelled.
create index store_in_key on prescient.store_in (entity_name, entity_key);

-- Which store this is, and whether it is being drained, for applications, too.
-- +goose StatementBegin
create function prescient.store()
returns table (store text, draining_since timestamptz, draining_by text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select s.store, s.draining_since, s.draining_by
    from prescient.setting s
$$;
-- +goose StatementEnd
revoke all on function prescient.store from public;

-- Writes copies of rows of another store, as JSON: of future_job, and for schedules of schedule and schedule_drop; '': none.
-- Jobs that are paused there, paused_jobs, are paused here before any of their rows can be; those that were not come back.
-- +goose StatementBegin
create function prescient.receive_rows(
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
    insert into prescient.store_in (source, batch, nth, job_exec, entity_name, entity_key, item_key, data, schedule, dropped)
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
    select prescient.number_of(u.name), u.name, statement_timestamp(), current_user
    from unnest(paused_jobs) as u (name)
    order by u.name
    on conflict (name) do update
    set paused_at = excluded.paused_at,
        paused_by = excluded.paused_by
    where j.paused_at is null
    returning j.name;
end
$$;
-- +goose StatementEnd

-- Takes rows away for another store, and returns which, by their places in the arrays: those that are still the versions that
-- were read, that nobody has locked, and whose slots have not begun. With the row of a schedule, whose id is in schedules, goes the schedule; where
-- its version is '' there is no row, and it goes alone. Rows of jobs that were paused after all, and are not in paused_jobs, stay.
--
-- It holds the slots against whoever opens them, so a row that it takes away is one that no run has read.
-- +goose StatementBegin
create function prescient.give_rows(
    own               bigint,
    this              bigint,
    target            text,
    source_name       text,
    target_name       text,
    slots             timestamptz[],
    numbers           bigint[],
    ids               bigint[],
    versions          text[],
    schedules         text[],
    schedule_versions text[],
    paused_jobs       text[],
    clock             timestamptz default null
)
returns integer[]
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    given  integer[];
    places tid[];
    locked text[];
    begun  timestamptz;
begin
    lock table prescient.future_job in row exclusive mode;
    perform from prescient.setting s where s.mover = own for share;
    if not found then
        raise exception 'somebody else has begun to move rows from this store' using errcode = 'PS003',
            hint = 'He finishes what was under way. See what is left with: prescient stores list';
    end if;
    select o.given into given from prescient.store_out o where o.batch = this;
    if found then
        return given;
    end if;
    perform prescient.lock_slot(g.slot, false)
    from (select distinct u.slot from unnest(slots, versions) as u (slot, version) where u.version <> '' order by u.slot) as g;

    begun := coalesce(clock, clock_timestamp());

    -- Schedules before their rows, as everybody locks them.
    select array_agg(s.id)
    into locked
    from (
        select s.id
        from unnest(schedules, schedule_versions) as u (id, version)
        join prescient.schedule s on s.id = u.id collate "C"
        where s.xmin::text = u.version
        order by s.id
        for update of s skip locked
    ) as s;

    -- One by one, so that a slot with a million rows is not read for some of them.
    select array_agg(u.nth::integer order by u.nth), array_agg(f.place)
    into given, places
    from unnest(slots, numbers, ids, versions, schedules) with ordinality as u (slot, number, id, version, schedule, nth)
    cross join lateral (
        select f.ctid as place
        from prescient.future_job f
        where f.next_check_at = u.slot and f.job = u.number and f.id = u.id and f.xmin::text = u.version
        limit 1
        for update skip locked
    ) as f
    where u.slot > begun
        and (u.schedule = '' or u.schedule = any (locked))
        and not exists (
            select
            from prescient.job j
            where j.job = u.number and j.paused_at is not null and j.name <> all (paused_jobs)
        );
    -- Schedules that did not wait, and do not.
    given := given || (
        select array_agg(u.nth::integer order by u.nth)
        from unnest(schedules, versions) with ordinality as u (schedule, version, nth)
        where u.version = ''
            and u.schedule = any (locked)
            and not exists (
                select
                from prescient.future_job f
                where f.entity_name = 'schedule'
                    and f.entity_key = u.schedule
                    and f.job = prescient.number_of('schedule')
                    and f.item_key = ''
            )
    );
    if given is null then
        return '{}';
    end if;

    delete from prescient.future_job f where f.ctid = any (places);
    delete from prescient.schedule s
    using unnest(schedules) with ordinality as u (schedule, nth)
    where u.nth = any (given) and s.id = u.schedule collate "C";
    delete from prescient.schedule_drop d
    using unnest(schedules) with ordinality as u (schedule, nth)
    where u.nth = any (given) and d.id = u.schedule collate "C";
    insert into prescient.store_out (batch, target, source_name, target_name, given)
    values (this, give_rows.target, give_rows.source_name, give_rows.target_name, given);
    return given;
end
$$;
-- +goose StatementEnd

-- Lets the rows of a batch wait that were given, with numbers of this store, and drops the copies of the others. A row keeps its slot,
-- or waits for the next one where that is none here or has begun. It ends in history where it was cancelled on its way, and
-- as replaced where its key waits here already, which is the later word, and takes the place of one that is being checked; a schedule that is here already likewise keeps its own row.
-- Once more it finds nothing of the batch.
-- +goose StatementBegin
create function prescient.settle_rows(
    source      text,
    this        bigint,
    given       integer[],
    source_name text,
    target_name text,
    clock       timestamptz default null,
    out settled   bigint,
    out replaced  bigint,
    out cancelled bigint
)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
    grid  interval;
    first timestamptz;
    fresh text[];
    moved text;
begin
    lock table prescient.future_job in row exclusive mode;
    -- Whoever cancels a copy waits for this transaction, and then finds the row that waits.
    perform
    from prescient.store_in i
    where i.source = settle_rows.source and i.batch = this
    order by i.nth
    for update;
    select s.width into grid from prescient.setting s;
    perform prescient.job_number(name)
    from (
        select distinct i.job_exec as name
        from prescient.store_in i
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.job_exec <> ''
        order by name
    ) as names;

    -- As for an enqueue: a row here that was claimed is no later word. Its check may have begun before whoever asked for the one
    -- that arrives. One with a transaction of its own holds this lock, and ends first.
    with claimed as (
        select f.place
        from prescient.store_in i
        cross join lateral (
            select f.ctid as place
            from prescient.future_job f
            where f.entity_name = i.entity_name
                and f.entity_key = i.entity_key
                and f.job = prescient.number_of(i.job_exec)
                and f.item_key = i.item_key
                and exists (
                    select
                    from prescient.slot_run r
                    join prescient.slot_job s on s.slot = r.slot
                    where r.slot = f.next_check_at and r.state = 'open' and s.job = f.job and s.cursor >= f.id
                    offset 0 -- no slot is read for it
                )
            limit 1
            for update
        ) as f
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.outcome is null and i.schedule is null
            and exists (select from prescient.slot_run r where r.state = 'open') -- else nothing is claimed
    ), gone as (
        delete from prescient.future_job f
        using claimed c
        where f.ctid = c.place
        returning f.*
    )
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace, outcome
    )
    select
        g.id, coalesce((select j.name from prescient.job j where j.job = g.job), '#' || g.job), g.entity_name, g.entity_key, g.item_key, g.group_key,
        g.first_check_at, g.next_check_at, g.check_count, g.error_count, g.last_error, g.spent, g.payload, g.enqueued_at, g.enqueued_by,
        g.enqueued_app, g.enqueued_actor, g.asked_for, g.asked_within,
        prescient.traced(g.trace, prescient.trace_entry('replaced', g.next_check_at)), 'replaced'
    from gone g;
    -- Asked for when the checks of those have ended: that may have taken over a boundary.
    first := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);

    with arriving as (
        select i.schedule, i.dropped
        from prescient.store_in i
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.schedule is not null
    ), written as (
        insert into prescient.schedule
        select s.*
        from arriving a
        cross join lateral json_populate_record(null::prescient.schedule, a.schedule) as s
        order by s.id
        on conflict (id) do nothing
        returning id
    ), counted as (
        -- backfills is the number of a transaction of the other store.
        insert into prescient.schedule_drop (id, dropped, runs, last_at, dropped_at)
        select d.id, d.dropped, d.runs, d.last_at, d.dropped_at
        from arriving a
        cross join lateral json_populate_record(null::prescient.schedule_drop, a.dropped) as d
        join written w on w.id = d.id
        order by d.id
        on conflict (id) do nothing
    )
    select coalesce(array_agg(w.id), '{}') into fresh from written w;

    moved := rtrim(prescient.trace_entry('moved', timestamptz 'epoch'), '}')
        || ',"from":' || to_json(source_name) || ',"to":' || to_json(target_name) || '}';
    with arriving as materialized (
        select
            r.*, case when r.payload is null and (i.data ->> 'null_payload')::boolean then jsonb 'null' else r.payload end as exactly,
            i.outcome, i.told, i.schedule is null or i.schedule ->> 'id' = any (fresh) as may_wait,
            coalesce(nullif(i.job_exec, ''), '#' || r.job) as name,
            case when i.job_exec = '' then r.job else prescient.number_of(i.job_exec) end as number,
            greatest(prescient.slot_ceil(r.next_check_at, grid), first) as target,
            prescient.traced(r.trace, prescient.trace_in(moved, r.next_check_at)) as traced
        from prescient.store_in i
        cross join lateral json_populate_record(null::prescient.future_job, i.data) as r
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.data is not null
    ), waiting as (
        insert into prescient.future_job (
            job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, check_count, error_count, last_error,
            spent, trace, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, enqueued_trace, asked_for, asked_within
        )
        select
            a.number, a.entity_name, a.entity_key, a.item_key, a.group_key, a.first_check_at, a.target, a.check_count, a.error_count, a.last_error,
            a.spent, a.traced, a.exactly, a.enqueued_at, a.enqueued_by, a.enqueued_app, a.enqueued_actor, a.enqueued_trace, a.asked_for, a.asked_within
        from arriving a
        where a.outcome is null and a.may_wait
        order by a.entity_name, a.entity_key, a.name, a.item_key
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning job, entity_name, entity_key, item_key
    ), ended as (
        select a.*, coalesce(a.outcome, 'replaced') as ends
        from arriving a
        where a.outcome is not null
            or not a.may_wait
            or a.item_key is not null and (a.entity_name, a.entity_key, a.number, a.item_key) not in (
                select w.entity_name, w.entity_key, w.job, w.item_key
                from waiting w
                where w.item_key is not null
            )
    ), kept as (
        insert into prescient.future_job_history (
            id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace, outcome
        )
        select
            e.id, e.name, e.entity_name, e.entity_key, e.item_key, e.group_key,
            e.first_check_at, e.target, e.check_count, e.error_count, e.last_error, e.spent, e.exactly, e.enqueued_at, e.enqueued_by,
            e.enqueued_app, e.enqueued_actor, e.asked_for, e.asked_within,
            prescient.traced(e.traced, coalesce(prescient.trace_in(e.told, e.next_check_at), prescient.trace_entry('replaced', e.target))), e.ends
        from ended e
        returning outcome
    )
    select (select count(*) from waiting), count(*) filter (where k.outcome = 'replaced'), count(*) filter (where k.outcome <> 'replaced')
    into settled, replaced, cancelled
    from kept k;

    delete from prescient.store_in i where i.source = settle_rows.source and i.batch = this;
end
$$;
-- +goose StatementEnd

update prescient.setting
set schema_version = 16;

-- +goose Down
update prescient.setting
set schema_version = 15;
drop function prescient.settle_rows(text, bigint, integer[], text, text, timestamptz);
drop function prescient.give_rows(bigint, bigint, text, text, text, timestamptz[], bigint[], bigint[], text[], text[], text[], text[], timestamptz);
drop function prescient.receive_rows(text, bigint, text[], text[], text[], text[], text[]);
drop function prescient.store();
drop table prescient.store_in;
drop table prescient.store_out;
alter table prescient.setting
    drop column mover,
    drop column draining_by,
    drop column draining_since,
    drop column store;
