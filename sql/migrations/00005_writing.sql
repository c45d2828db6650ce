-- What applications call, from Go through package jobs or from any SQL: a trigger, psql, Java, Python. They run with the
-- rights of the schema's owner, so that a caller needs EXECUTE alone; search_path is pinned, so that what they call is
-- never something that the caller has made.
-- Each runs in the caller's transaction. clock is for replays; null, the default, asks the database.
-- Those that compute a slot lock the table first, by reading nothing of it: while the width is being changed they wait, and
-- then use the new one.

-- +goose Up

-- Ends waiting rows by key and puts them into history. A null job_exec takes every job of the entity,
-- a null item_key every item. Anonymous rows are never found. Rows that are on their way from another store end so when they
-- are here.
-- +goose StatementBegin
create function prescient.end_by_key(
    outcome     text,
    entity_name text,
    entity_key  text,
    job_exec    text,
    item_key    text
)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    ended    bigint;
    arriving bigint;
    entry    text := prescient.trace_entry(outcome, timestamptz 'epoch');
begin
    -- First: whoever lets them wait has locked them, and is waited for. One whose slot has begun may be a copy of a row that was never
    -- given, and has been checked where it was: it does not count.
    with marked as (
        update prescient.store_in i
        set outcome = end_by_key.outcome,
            told = entry
        where i.entity_name = end_by_key.entity_name
            and i.entity_key = end_by_key.entity_key
            and (end_by_key.job_exec is null or i.job_exec = end_by_key.job_exec)
            and (end_by_key.item_key is null or i.item_key = end_by_key.item_key)
            and i.item_key is not null
            and i.outcome is null
        returning i.data ->> 'next_check_at' as slot
    )
    select count(*) into arriving from marked where slot::timestamptz > clock_timestamp();

    with gone as (
        delete from prescient.future_job f
        where f.entity_name = end_by_key.entity_name
            and f.entity_key = end_by_key.entity_key
            and (end_by_key.job_exec is null or f.job = prescient.number_of(end_by_key.job_exec))
            and (end_by_key.item_key is null or f.item_key = end_by_key.item_key)
            and f.item_key is not null
        returning *
    )
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace, outcome
    )
    select
        id, coalesce((select j.name from prescient.job j where j.job = gone.job), end_by_key.job_exec, '#' || gone.job), entity_name, entity_key, item_key, group_key,
        first_check_at, next_check_at, check_count, error_count, last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for,
        asked_within,
        prescient.traced(trace, prescient.trace_in(entry, next_check_at)), end_by_key.outcome
    from gone;
    get diagnostics ended = row_count;
    return ended + arriving;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function prescient.cancel(job_exec text, entity_name text, entity_key text, item_key text default '')
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select prescient.end_by_key('cancelled', entity_name, entity_key, job_exec, item_key) > 0
$$;
-- +goose StatementEnd
revoke all on function prescient.cancel from public;

-- Cancels every keyed check of the entity; returns how many.
-- +goose StatementBegin
create function prescient.cancel_entity(entity_name text, entity_key text)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select prescient.end_by_key('cancelled', entity_name, entity_key, null, null)
$$;
-- +goose StatementEnd
revoke all on function prescient.cancel_entity from public;

-- Moves a waiting check to the slot of another instant, earlier or later. Returns the slot; null: no such check.
-- +goose StatementBegin
create function prescient.reschedule(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    item_key    text default '',
    clock       timestamptz default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    waiting record;
    target  timestamptz;
begin
    if check_at is null then
        raise exception 'check_at is null' using errcode = 'null_value_not_allowed';
    end if;
    perform from prescient.future_job where false;
    select f.next_check_at, f.job, f.id
    into waiting
    from prescient.future_job f
    where f.entity_name = reschedule.entity_name
        and f.entity_key = reschedule.entity_key
        and f.job = prescient.number_of(reschedule.job_exec)
        and f.item_key = reschedule.item_key
    for update;
    if not found then
        return null;
    end if;
    -- Asked for when the row is locked: its lock may have been waited for over a boundary.
    target := prescient.slot_target(check_at, clock);
    update prescient.future_job f
    set next_check_at = target,
        trace = prescient.traced(f.trace, prescient.trace_entry('rescheduled', waiting.next_check_at))
    where f.next_check_at = waiting.next_check_at
        and f.job = waiting.job
        and f.id = waiting.id;
    return target;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.reschedule from public;

-- "It happened again": moves a waiting check later, never earlier, and with a cap no later than that long after
-- its first slot (days and months of a cap are those of UTC). One that lands in the slot it is in writes nothing.
-- A check whose slot has begun goes to the next slot at the least, whatever the cap. within: see enqueue.
-- Returns the slot; null: no such check.
-- +goose StatementBegin
create function prescient.push_back(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    cap         interval default null,
    item_key    text default '',
    clock       timestamptz default null,
    within      interval default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    waiting  record;
    earliest timestamptz;
    target   timestamptz;
begin
    if check_at is null then
        raise exception 'check_at is null' using errcode = 'null_value_not_allowed';
    end if;
    if prescient.within_seconds(within) not between 1 and 31622400 then
        raise exception 'within is %; it must be from 0 to 366 days', within
            using errcode = 'check_violation', constraint = 'future_job_within', table = 'future_job';
    end if;
    perform from prescient.future_job where false;
    select
        f.next_check_at, f.job, f.id,
        prescient.slot_floor((f.first_check_at at time zone 'UTC' + cap) at time zone 'UTC', s.width) as latest
    into waiting
    from prescient.future_job f, prescient.setting s
    where f.entity_name = push_back.entity_name
        and f.entity_key = push_back.entity_key
        and f.job = prescient.number_of(push_back.job_exec)
        and f.item_key = push_back.item_key
    for update of f;
    if not found then
        return null;
    end if;
    -- Asked for when the row is locked: its lock may have been waited for over a boundary.
    earliest := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
    target := least(
        prescient.slot_target(check_at, clock, prescient.within_seconds(within), prescient.place_key(job_exec, entity_name, entity_key, item_key)),
        waiting.latest
    );
    if waiting.next_check_at >= greatest(target, earliest) then
        return waiting.next_check_at;
    end if;
    target := greatest(target, earliest);
    update prescient.future_job f
    set next_check_at = target,
        trace = prescient.traced(f.trace, prescient.trace_entry('pushed_back', waiting.next_check_at))
    where f.next_check_at = waiting.next_check_at
        and f.job = waiting.job
        and f.id = waiting.id;
    return target;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.push_back from public;

-- Enqueues one check. A null item_key makes it anonymous. On a key that waits already, on_conflict decides:
-- keep (the waiting row stays as it is), replace (it goes to history, the new one takes its place),
-- push_back (see there; cap is for it alone) or error (unique_violation).
-- action tells what was done: inserted, kept, replaced or pushed_back.
--
-- within: any slot will do from the first one at or after check_at that is before check_at + within, in whole seconds; a
-- day has 24 hours. Which it is follows from job_exec, entity_name, entity_key and item_key alone; see place. It is fixed
-- with that. Where no slot is in there, it is the first one at or after check_at, as without within.
--
-- A row whose slot has begun is no longer safe to keep. When it has been claimed its check may have begun, and see
-- nothing of this transaction: it is replaced, whatever on_conflict says but push_back, which moves it. When it has not,
-- keep moves it to the next slot, to be checked after this transaction.
-- +goose StatementBegin
create function prescient.enqueue(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    payload     jsonb default null,
    item_key    text default '',
    group_key   text default null,
    on_conflict text default 'keep',
    cap         interval default null,
    clock       timestamptz default null,
    within      interval default null,
    out id      bigint,
    out slot    timestamptz,
    out action  text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    number  bigint;
    target  timestamptz;
    waiting record;
    claimed boolean;
    done    text := 'inserted';
    seconds integer;
    key     text;
begin
    if on_conflict not in ('keep', 'replace', 'push_back', 'error') or on_conflict is null then
        raise exception 'on_conflict is %; it must be keep, replace, push_back or error', coalesce(quote_literal(on_conflict), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if check_at is null then
        raise exception 'check_at is null' using errcode = 'null_value_not_allowed';
    end if;
    perform from prescient.future_job where false;
    select j.job into number from prescient.job j where j.name = enqueue.job_exec;
    if not found then
        number := prescient.job_number(job_exec);
    end if;
    if within is not null then
        seconds := prescient.within_seconds(within);
        if seconds not between 1 and 31622400 then
            raise exception 'within is %; it must be from 0 to 366 days', within
                using errcode = 'invalid_parameter_value';
        end if;
        key := prescient.place_key(job_exec, entity_name, entity_key, item_key);
    end if;
    -- Each turn either ends or finds the conflicting row gone, ended by somebody else between two statements.
    loop
        target := prescient.slot_target(check_at, clock, seconds, key);
        insert into prescient.future_job as f (
            job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, asked_for, asked_within
        )
        values (
            number, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, enqueue.group_key, target, target, enqueue.payload,
            nullif(check_at, target), seconds
        )
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning f.id, f.next_check_at, done
        into enqueue.id, enqueue.slot, enqueue.action;
        if found then
            -- Somebody's key may have been waited for over a boundary.
            if enqueue.slot <= coalesce(clock, clock_timestamp()) then
                target := prescient.slot_target(check_at, clock, seconds, key);
                update prescient.future_job f
                set first_check_at = target,
                    next_check_at = target,
                    asked_for = check_at
                where f.next_check_at = enqueue.slot and f.job = number and f.id = enqueue.id;
                enqueue.slot := target;
            end if;
            return;
        end if;

        select f.id, f.next_check_at
        into waiting
        from prescient.future_job f
        where f.entity_name = enqueue.entity_name
            and f.entity_key = enqueue.entity_key
            and f.job = number
            and f.item_key = enqueue.item_key;
        continue when not found;
        claimed := false;
        if waiting.next_check_at <= coalesce(clock, clock_timestamp()) then
            -- A check with a transaction of its own holds this lock, and ends first.
            perform
            from prescient.future_job f
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id
            for update;
            continue when not found;
            claimed := exists (
                select
                from prescient.slot_run r
                join prescient.slot_job s on s.slot = r.slot
                where r.slot = waiting.next_check_at and r.state = 'open' and s.job = number and s.cursor >= waiting.id
            );
            if on_conflict = 'keep' and not claimed then
                target := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
                update prescient.future_job f
                set next_check_at = target,
                    trace = prescient.traced(f.trace, prescient.trace_entry('kept', waiting.next_check_at))
                where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id
                returning f.id, f.next_check_at, 'kept'
                into enqueue.id, enqueue.slot, enqueue.action;
                return;
            end if;
        end if;

        if on_conflict = 'replace' or claimed and on_conflict <> 'push_back' then
            if prescient.end_by_key('replaced', enqueue.entity_name, enqueue.entity_key, enqueue.job_exec, enqueue.item_key) > 0 then
                done := 'replaced';
            end if;
            continue;
        end if;
        if on_conflict = 'error' then
            raise exception 'a check of job_exec %, entity_name %, entity_key %, item_key % is waiting already',
                quote_literal(enqueue.job_exec), quote_literal(enqueue.entity_name),
                quote_literal(enqueue.entity_key), quote_literal(enqueue.item_key)
                using errcode = 'unique_violation', constraint = 'future_job_key', table = 'future_job';
        end if;
        enqueue.id := waiting.id;
        enqueue.slot := waiting.next_check_at;
        enqueue.action := 'kept';
        if on_conflict = 'push_back' then
            enqueue.slot := prescient.push_back(
                enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.check_at,
                enqueue.cap, enqueue.item_key, enqueue.clock, enqueue.within
            );
            continue when enqueue.slot is null;
            enqueue.action := 'pushed_back';
        end if;
        return;
    end loop;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.enqueue from public;

-- Enqueues many, given as arrays of one length, and counts what was done. Rows are written in the order of their
-- keys, so that two calls never wait for each other in a circle. A key given twice counts as two calls, in order.
-- withins are the within of each; null: none has one.
-- +goose StatementBegin
create function prescient.enqueue_many(
    job_execs    text[],
    entity_names text[],
    entity_keys  text[],
    check_ats    timestamptz[],
    payloads     text[],
    item_keys    text[],
    group_keys   text[],
    on_conflict  text default 'keep',
    cap          interval default null,
    clock        timestamptz default null,
    withins      interval[] default null,
    out inserted    bigint,
    out kept        bigint,
    out replaced    bigint,
    out pushed_back bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    grid           interval;
    first          timestamptz;
    later          timestamptz;
    written        bigint[];
    begun          record;
    enqueued_by    text := coalesce(nullif(current_setting('role'), 'none'), session_user);
    enqueued_app   text := nullif(current_setting('application_name'), '');
    enqueued_actor text := left(nullif(current_setting('prescient_trace.actor', true), ''), 500);
    enqueued_trace text := left(nullif(current_setting('prescient_trace.parent', true), ''), 500);
    wrong          interval;
begin
    if array_position(check_ats, null) is not null or cardinality(check_ats) < cardinality(job_execs) then
        raise exception 'check_at is null' using errcode = 'null_value_not_allowed';
    end if;
    select w into wrong
    from unnest(withins) as w
    where prescient.within_seconds(w) not between 1 and 31622400
    limit 1;
    if found then
        raise exception 'within is %; it must be from 0 to 366 days', wrong
            using errcode = 'check_violation', constraint = 'future_job_within', table = 'future_job';
    end if;
    perform from prescient.future_job where false;
    replaced := 0;
    pushed_back := 0;
    -- keep, the default, asks nothing of a row whose slot has not begun: one statement, and the others one by one.
    if on_conflict = 'keep' then
        perform prescient.job_number(name)
        from (select distinct name from unnest(job_execs) as g (name) order by name) as names;
        grid := (select width from prescient.setting);
        first := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
        -- One by one: the number of rows that Citus tells of an insert is of those that it was given.
        for begun in
            with given as (
                select
                    job.job, entity_name, entity_key, prescient.place(usual, check_at, within, first, grid, hash) as target,
                    payload, item_key, group_key, check_at, within
                from (
                    select
                        job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, nth, prescient.slot_ceil(check_at, grid) as usual,
                        prescient.within_seconds(within) as within,
                        case when within is not null then prescient.place_hash(prescient.place_key(job_exec, entity_name, entity_key, item_key)) end as hash
                    from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins) with ordinality
                        as u (job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, within, nth)
                    offset 0 -- each is found out once
                ) as g
                left join (
                    select name, prescient.number_of(name) as job
                    from (select distinct name from unnest(job_execs) as n (name)) as n
                ) as job on job.name = g.job_exec -- an array that is too short gives nulls, which are refused
                order by entity_name, entity_key, job_exec, item_key, nth
            )
            insert into prescient.future_job (
                job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, asked_for, asked_within,
                enqueued_by, enqueued_app, enqueued_actor, enqueued_trace
            )
            select
                job, entity_name, entity_key, item_key, group_key, target, target, payload::jsonb, nullif(check_at, target), within,
                enqueued_by, enqueued_app, enqueued_actor, enqueued_trace
            from given
            on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
            returning id
        loop
            written := written || begun.id;
        end loop;
        inserted := coalesce(cardinality(written), 0);
        later := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
        if later > first then -- somebody's key may have been waited for over a boundary
            for begun in
                select
                    next_check_at, job, id, asked,
                    prescient.place(
                        prescient.slot_ceil(asked, grid), asked, asked_within, later, grid,
                        prescient.place_hash(prescient.place_key(name, entity_name, entity_key, item_key))
                    ) as target
                from (
                    select o.*, n.name, coalesce(o.asked_for, o.first_check_at) as asked
                    from prescient.future_job o
                    join (
                        select name, prescient.number_of(name) as job
                        from (select distinct name from unnest(job_execs) as n (name)) as n
                    ) as n on n.job = o.job
                    where o.next_check_at >= first and o.next_check_at < later and o.id = any (written)
                ) as o
            loop
                update prescient.future_job f
                set first_check_at = begun.target,
                    next_check_at = begun.target,
                    asked_for = begun.asked
                where f.next_check_at = begun.next_check_at and f.job = begun.job and f.id = begun.id;
            end loop;
            first := later;
        end if;
        kept := coalesce(cardinality(job_execs), 0) - inserted;
        if kept = 0 then
            return;
        end if;
        for begun in
            select g.*
            from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins) with ordinality
                as g (job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, within, nth)
            join prescient.future_job f
                on f.entity_name = g.entity_name and f.entity_key = g.entity_key and f.job = prescient.number_of(g.job_exec) and f.item_key = g.item_key
            where f.next_check_at < first
            order by g.entity_name, g.entity_key, g.job_exec, g.item_key, g.nth
        loop
            case (
                select e.action
                from prescient.enqueue(
                    begun.job_exec, begun.entity_name, begun.entity_key, begun.check_at, begun.payload::jsonb, begun.item_key, begun.group_key,
                    'keep', null, enqueue_many.clock, begun.within
                ) as e
            )
                when 'replaced' then
                    replaced := replaced + 1;
                    kept := kept - 1;
                when 'inserted' then -- its check has ended meanwhile
                    inserted := inserted + 1;
                    kept := kept - 1;
                else
            end case;
        end loop;
        return;
    end if;

    select
        count(*) filter (where e.action = 'inserted'),
        count(*) filter (where e.action = 'kept'),
        count(*) filter (where e.action = 'replaced'),
        count(*) filter (where e.action = 'pushed_back')
    into inserted, kept, replaced, pushed_back
    from (
        select *
        from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins) with ordinality
            as u (job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, within, nth)
        order by entity_name, entity_key, job_exec, item_key, nth
    ) as g,
    lateral prescient.enqueue(
        g.job_exec, g.entity_name, g.entity_key, g.check_at, g.payload::jsonb, g.item_key, g.group_key,
        enqueue_many.on_conflict, enqueue_many.cap, enqueue_many.clock, g.within
    ) as e;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.enqueue_many from public;

-- Puts failed checks that ended since an instant, at most so many, back into the slot for another instant, with a clean
-- error count; they leave history and keep their id. A key that waits already stays as it is, and so does its failed row.
-- Null takes every job, entity_name or entity_key.
-- +goose StatementBegin
create function prescient.retry_failed(
    job_exec    text,
    entity_name text,
    entity_key  text,
    since       timestamptz,
    most        bigint,
    check_at    timestamptz,
    clock       timestamptz,
    out retried         bigint,
    out waiting_already bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    target timestamptz;
    entry  text        := prescient.trace_entry('retried', timestamptz 'epoch');
    name   text;
    row_id bigint;
    ids    bigint[];
    ends   timestamptz[];
    back   bigint[]    := '{}';
begin
    for name in
        select distinct h.job_exec
        from prescient.future_job_history h
        where h.outcome = 'failed'
            and (retry_failed.job_exec is null or h.job_exec = retry_failed.job_exec)
            and h.finished_at >= since
        order by h.job_exec
    loop
        perform prescient.job_number(name);
    end loop;
    select array_agg(h.id), array_agg(h.finished_at), count(*)
    into ids, ends, waiting_already
    from (
        select h.id, h.finished_at
        from prescient.future_job_history h
        where h.outcome = 'failed'
            and (retry_failed.job_exec is null or h.job_exec = retry_failed.job_exec)
            and (retry_failed.entity_name is null or h.entity_name = retry_failed.entity_name)
            and (retry_failed.entity_key is null or h.entity_key = retry_failed.entity_key)
            and h.finished_at >= since
        order by h.finished_at
        limit most
        for update
    ) as h;
    -- Asked for when the rows are locked: their locks may have been waited for over a boundary.
    target := prescient.slot_target(check_at, clock);
    for row_id in
        with failed as materialized (
            select h.*
            from prescient.future_job_history h
            where h.outcome = 'failed' and h.finished_at = any (ends) and h.id = any (ids)
        )
        insert into prescient.future_job (
            id, job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, check_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace
        )
        overriding system value
        select
            id, prescient.number_of(failed.job_exec), entity_name, entity_key, item_key, group_key, first_check_at, target, check_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within,
            prescient.traced(
                prescient.traced(trace, json_build_array(
                    'failed', extract(epoch from slot)::bigint, runner, (extract(epoch from lateness) * 1000)::bigint,
                    (extract(epoch from duration) * 1000000)::bigint, left(last_error, 200)
                )::text),
                prescient.trace_in(entry, slot)
            )
        from failed
        order by failed.finished_at
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning id
    loop
        back := back || row_id;
    end loop;
    delete from prescient.future_job_history h
    where h.outcome = 'failed' and h.finished_at = any (ends) and h.id = any (back);
    retried := cardinality(back);
    waiting_already := waiting_already - retried;
end
$$;
-- +goose StatementEnd

-- Takes the lock that a run holds while it checks a group, until the transaction ends: for applications that change
-- what a group's check looks at. The group of a row without a group_key is entity_name || chr(31) || entity_key.
-- +goose StatementBegin
create function prescient.lock_group(group_key text)
returns void
language sql
as $$
    select pg_advisory_xact_lock(hashtextextended('prescient.group ' || group_key, 0))
$$;
-- +goose StatementEnd

-- Changes the distance between two slots and moves waiting rows onto the new grid, upward only, in the caller's
-- transaction. Refused while a slot is open, and while rows are due: the ledger begins anew after the change, so
-- nobody would see that their slot was missed. Returns how many rows were moved.
-- It waits for transactions that are open no longer than a runner waits for it, since everybody waits behind it, and longer than
-- deadlock_timeout, after which autovacuum gives way.
-- +goose StatementBegin
create function prescient.set_width(new_width interval, clock timestamptz default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '3s'
as $$
declare
    seconds numeric := extract(epoch from new_width);
    entry   text := prescient.trace_entry('width', timestamptz 'epoch');
    now     timestamptz;
    holder  record;
    due     record;
    word    text; -- the name of its job, as a shell reads it
    moved   bigint;
begin
    if seconds is null or seconds not between 1 and 86400 or seconds <> floor(seconds) or 86400 % seconds <> 0 then
        raise exception 'width is %; it must be a whole number of seconds that divides 24 hours, from 1 second to 24 hours', coalesce(new_width::text, 'null')
            using errcode = 'check_violation', constraint = 'setting_width', table = 'setting';
    end if;
    new_width := seconds::double precision * interval '1 second';
    -- Nothing to do; the ledger would forget what was missed.
    if exists (select from prescient.setting where width = new_width) then
        return 0;
    end if;
    call prescient.wait_for_locks(current_setting('lock_timeout')); -- where the tables are, too
    begin
        lock table prescient.future_job, prescient.slot_run in access exclusive mode;
    exception when lock_not_available then
        select a.pid, a.usename, a.application_name
        into holder
        from pg_locks l
        join pg_stat_activity a on a.pid = l.pid
        where l.relation in ('prescient.future_job'::regclass, 'prescient.slot_run'::regclass) and l.granted
            and a.datname = current_database() and a.pid <> pg_backend_pid()
        order by a.xact_start
        limit 1;
        raise exception 'a transaction is open that has read or written checks%',
            coalesce(': of session ' || holder.pid || ' of ' || holder.usename || coalesce(' (' || nullif(holder.application_name, '') || ')', ''), '')
            using errcode = 'lock_not_available', hint = 'Everybody who writes checks would wait behind this. Try again when it has ended'
                || coalesce('. To end it: select pg_terminate_backend(' || holder.pid || ')', '; which it is tells: prescient doctor');
    end;
    now := coalesce(clock, clock_timestamp());
    if exists (select from prescient.slot_run where state = 'open') then
        raise exception 'slot % is open', (select to_char(min(slot) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') from prescient.slot_run where state = 'open')
            using errcode = 'object_in_use', hint = 'Wait until its run is over, or finish it with: prescient catch-up. Where that leaves it open, its rows are of a job that the binary does not have: '
                'run one that has it, or cancel them; which job tells: prescient status';
    end if;
    select f.next_check_at, coalesce(j.name, '#' || f.job) as name, j.paused_at is not null as paused, j.registered_at is null as unknown
    into due
    from prescient.future_job f
    left join prescient.job j on j.job = f.job
    where f.next_check_at <= now
    order by f.next_check_at
    limit 1;
    if found then
        word := case
            when due.name ~ '^[A-Za-z0-9_./:@=,+-]+$' then due.name
            else '''' || replace(due.name, '''', '''' || chr(92) || '''''') || ''''
        end;
        raise exception 'checks of job % are due in slot %', due.name, to_char(due.next_check_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            using errcode = 'object_in_use',
                hint = case
                    when due.paused then format('The job is paused: end that first, with: prescient jobs resume %s, and run them with: prescient catch-up', word)
                    when due.unknown then format('No run has ever registered the job. Run them first, with: prescient catch-up, of a binary that has it; or cancel them, where the name is wrong: prescient jobs list --job %s', word)
                    else 'Run them first, with: prescient catch-up'
                end;
    end if;
    update prescient.setting
    set width = new_width,
        since = prescient.slot_floor(now, new_width) + new_width;
    alter table prescient.future_job drop constraint future_job_on_grid;
    update prescient.future_job
    -- slot_ceil, of what is immutable alone: the sum is one without a time zone.
    set next_check_at = prescient.slot_floor(
            (next_check_at at time zone 'UTC' + (new_width - interval '1 microsecond')) at time zone 'UTC', new_width
        ),
        trace = prescient.traced(trace, prescient.trace_in(entry, next_check_at))
    where next_check_at <> prescient.slot_floor(next_check_at, new_width);
    get diagnostics moved = row_count;
    execute format(
        'alter table prescient.future_job add constraint future_job_on_grid check ('
        'next_check_at = date_bin(interval %L, next_check_at, timestamptz ''1970-01-01 00:00:00+00''))',
        new_width
    );
    return moved;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.set_width from public;

update prescient.setting
set schema_version = 5;

-- +goose Down
update prescient.setting
set schema_version = 4;
drop function prescient.set_width(interval, timestamptz);
drop function prescient.lock_group(text);
drop function prescient.retry_failed(text, text, text, timestamptz, bigint, timestamptz, timestamptz);
drop function prescient.enqueue_many(text[], text[], text[], timestamptz[], text[], text[], text[], text, interval, timestamptz, interval[]);
drop function prescient.enqueue(text, text, text, timestamptz, jsonb, text, text, text, interval, timestamptz, interval);
drop function prescient.push_back(text, text, text, timestamptz, interval, text, timestamptz, interval);
drop function prescient.reschedule(text, text, text, timestamptz, text, timestamptz);
drop function prescient.cancel_entity(text, text);
drop function prescient.cancel(text, text, text, text);
drop function prescient.end_by_key(text, text, text, text, text);
