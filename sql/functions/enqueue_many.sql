-- Enqueues many checks, given as arrays of one length, and counts what was done. Null stands for an array of nulls, and
-- a null item_key for an anonymous check. It writes rows in
-- the order of their keys, so that two calls never deadlock. A key given twice counts as two calls,
-- in order. withins are the within of each; null: no check has one. unless_ended_withins likewise;
-- with any, the call writes row by row. A trigger that suppresses a row ends the call with an
-- error, as in enqueue.
create or replace function prescient.enqueue_many(
    job_execs    text[],
    entity_names text[],
    entity_keys  text[],
    item_keys    text[],
    check_ats    timestamptz[],
    group_keys   text[] default null,
    on_conflict  text default 'keep',
    max_wait     interval default null,
    withins      interval[] default null,
    unless_ended_withins interval[] default null,
    payloads     text[] default null,
    out inserted    bigint,
    out kept        bigint,
    out replaced    bigint,
    out pushed_back bigint,
    out recorded    bigint,
    out recent      bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    clock          timestamptz := nullif(current_setting('prescient_caller.clock', true), '')::timestamptz;
    grid           interval;
    first          timestamptz;
    later          timestamptz;
    written        bigint[];
    nameless       bigint := 0; -- anonymous rows that were written
    waiting        bigint[]; -- the positions of the keys that wait now
    started        bigint[]; -- of those, the ones whose slots have begun
    begun          record;
    enqueued_by    text := coalesce(nullif(current_setting('role'), 'none'), session_user);
    enqueued_app   text := nullif(current_setting('application_name'), '');
    enqueued_actor text := left(nullif(current_setting('prescient_caller.actor', true), ''), 500);
    enqueued_traceparent text := left(nullif(current_setting('prescient_caller.traceparent', true), ''), 500);
    wrong          interval;
    bad            record;
begin
    perform prescient.require_rights(n.name, n.of_schedule, inserts => true)
    from (
        select distinct g.name collate "C" as name, prescient.of_schedule(g.entity_name, g.entity_key, g.item_key) as of_schedule
        from unnest(job_execs, entity_names, entity_keys, item_keys) as g (name, entity_name, entity_key, item_key)
        order by 1 -- as ensure_job is called below
    ) as n;
    if clock is not null then
        perform prescient.require_runner(clock);
    end if;
    select a.name, a.size, a.gap
    into bad
    from (values
        (1, 'job_execs', coalesce(cardinality(job_execs), 0), array_position(job_execs, null)),
        (2, 'entity_names', coalesce(cardinality(entity_names), 0), array_position(entity_names, null)),
        (3, 'entity_keys', coalesce(cardinality(entity_keys), 0), array_position(entity_keys, null)),
        (4, 'check_ats', coalesce(cardinality(check_ats), 0), array_position(check_ats, null)),
        (5, 'item_keys', cardinality(item_keys), null),
        (6, 'group_keys', cardinality(group_keys), null),
        (7, 'withins', cardinality(withins), null),
        (8, 'unless_ended_withins', cardinality(unless_ended_withins), null),
        (9, 'payloads', cardinality(payloads), null)
    ) as a (nth, name, size, gap)
    where a.gap is not null or a.size <> coalesce(cardinality(job_execs), 0)
    order by a.nth
    limit 1;
    if bad.gap is not null then
        raise exception '%[%] is null', bad.name, bad.gap using errcode = 'null_value_not_allowed';
    elsif bad.name is not null then
        raise exception '% has % elements, and job_execs has %: give one for each check', bad.name, bad.size,
            coalesce(cardinality(job_execs), 0)
            using errcode = 'array_subscript_error';
    end if;
    if not prescient.wait_fits(max_wait) then
        raise exception 'max_wait is %; it must be from 0 to 1000 years', max_wait using errcode = 'invalid_parameter_value';
    end if;
    if (select max(at) from unnest(check_ats) as at) > coalesce(clock, clock_timestamp()) + interval '100 years' then
        perform prescient.require_given(g.job_exec, g.entity_name, g.entity_key, g.check_at, null, clock)
        from unnest(job_execs, entity_names, entity_keys, check_ats) as g (job_exec, entity_name, entity_key, check_at);
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
    recorded := 0;
    recent := 0;
    -- keep, the default, leaves a row whose slot has not begun: one statement. Other policies go row by row, and so do
    -- conditions, which need a look into history for each row. So do keys that would wait for another transaction after
    -- a later key was written: locks are taken in the order of the keys alone.
    if on_conflict = 'keep' and num_nonnulls(variadic coalesce(unless_ended_withins, '{}')) = 0 then
        perform prescient.ensure_job(name)
        from (select name from unnest(job_execs) as g (name) group by name order by name collate "C") as names;
        begin
            grid := (select width from prescient.setting);
            first := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);
            -- Row by row, because Citus reports the number of given rows as that of inserted ones.
            for begun in
                with given as (
                    select
                        job.job, entity_name, entity_key, prescient.pick_slot(usual, check_at, within, first, grid, hash) as target,
                        payload, item_key, group_key, check_at, within
                    from (
                        select
                            job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, nth, prescient.slot_ceil(check_at, grid) as usual,
                            prescient.within_seconds(within) as within,
                            case when within is not null then prescient.window_hash(prescient.window_key(job_exec, entity_name, entity_key, item_key)) end as hash
                        from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins) with ordinality
                            as u (job_exec, entity_name, entity_key, given_at, payload, item_key, group_key, within, nth)
                        cross join lateral (values (greatest(given_at, timestamptz '1970-01-01 00:00:00+00'))) as a (check_at) -- as enqueue
                        offset 0 -- each is found out once
                    ) as g
                    left join (
                        select name, prescient.find_job(name) as job
                        from (select distinct name from unnest(job_execs) as n (name)) as n
                    ) as job on job.name = g.job_exec
                    order by entity_name collate "C", entity_key collate "C", job_exec collate "C", item_key collate "C", nth
                )
                insert into prescient.future_job (
                    {{enqueued}}
                )
                select
                    job, entity_name, entity_key, item_key, group_key, target, target, payload::jsonb, nullif(check_at, target), within,
                    enqueued_by, enqueued_app, enqueued_actor, enqueued_traceparent
                from given
                on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
                returning id, item_key
            loop
                written := written || begun.id;
                if begun.item_key is null then
                    nameless := nameless + 1;
                end if;
            end loop;
            inserted := coalesce(cardinality(written), 0);
            later := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);
            if later > first then -- waiting for another transaction's key may have taken until after a boundary
                for begun in
                    select
                        next_check_at, job, id, asked,
                        prescient.pick_slot(
                            prescient.slot_ceil(asked, grid), asked, requested_within, later, grid,
                            prescient.window_hash(prescient.window_key(name, entity_name, entity_key, item_key))
                        ) as target
                    from (
                        select o.*, n.name, coalesce(o.requested_for, o.first_check_at) as asked
                        from prescient.future_job o
                        join (
                            select name, prescient.find_job(name) as job
                            from (select distinct name from unnest(job_execs) as n (name)) as n
                        ) as n on n.job = o.job
                        where o.next_check_at >= first and o.next_check_at < later and o.id = any (written)
                    ) as o
                loop
                    update prescient.future_job f
                    set first_check_at = begun.target,
                        next_check_at = begun.target,
                        requested_for = begun.asked
                    where f.next_check_at = begun.next_check_at and f.job = begun.job and f.id = begun.id;
                    if not found then
                        perform prescient.raise_suppressed('the update of a new row');
                    end if;
                end loop;
                first := later;
            end if;
            kept := coalesce(cardinality(job_execs), 0) - inserted;
            if kept = 0 then
                return;
            end if;
            if nameless < (select count(*) from unnest(job_execs, item_keys) as g (job_exec, item_key) where g.item_key is null) then
                perform prescient.raise_suppressed('the insert of an anonymous row');
            end if;
            select array_agg(g.nth), array_agg(g.nth) filter (where f.next_check_at < first)
            into waiting, started
            from unnest(job_execs, entity_names, entity_keys, item_keys) with ordinality as g (job_exec, entity_name, entity_key, item_key, nth)
            cross join lateral (
                select f.next_check_at
                from prescient.future_job f
                where f.entity_name = g.entity_name
                    and f.entity_key = g.entity_key
                    and f.job = prescient.find_job(g.job_exec)
                    and f.item_key = g.item_key
                offset 0 -- key by key: a join may read the whole index
            ) as f;
            for begun in
                select g.*
                from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins) with ordinality
                    as g (job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, within, nth)
                where g.item_key is not null
                    and (
                        exists (select from unnest(started) as s (nth) where s.nth = g.nth)
                        or not exists (select from unnest(waiting) as w (nth) where w.nth = g.nth)
                    )
                order by g.entity_name collate "C", g.entity_key collate "C", g.job_exec collate "C", g.item_key collate "C", g.nth
            loop
                -- The lock of a key that comes before another one is not waited for here. A key that was not written and
                -- does not wait has ended meanwhile, or a trigger suppresses it: enqueue finds out which.
                perform
                from prescient.future_job f
                where f.entity_name = begun.entity_name
                    and f.entity_key = begun.entity_key
                    and f.job = prescient.find_job(begun.job_exec)
                    and f.item_key = begun.item_key
                    and (f.request).check_at is null
                for update skip locked;
                if not found and exists (
                    select
                    from prescient.future_job f
                    where f.entity_name = begun.entity_name
                        and f.entity_key = begun.entity_key
                        and f.job = prescient.find_job(begun.job_exec)
                        and f.item_key = begun.item_key
                        and f.next_check_at < first
                        and (f.request).check_at is not null
                        and (f.request).unless_ended_within is null
                ) then
                    -- keep leaves that request, as record_request does. An enqueue would wait for a transaction that
                    -- changes the row.
                    recorded := recorded + 1;
                    kept := kept - 1;
                    continue;
                elsif not found then
                    raise exception 'a key that waits already is locked' using errcode = 'PS005';
                end if;
                case (
                    select e.action
                    from prescient.enqueue(
                        begun.job_exec, begun.entity_name, begun.entity_key, begun.item_key, begun.check_at, begun.group_key,
                        within => begun.within, payload => begun.payload::jsonb
                    ) as e
                )
                    when 'recorded' then
                        recorded := recorded + 1;
                        kept := kept - 1;
                    when 'inserted' then -- its check has ended meanwhile
                        inserted := inserted + 1;
                        kept := kept - 1;
                    else
                end case;
            end loop;
            return;
        exception
            when sqlstate 'PS005' then null; -- nothing is written, and the keys are taken row by row
        end;
    end if;

    select
        count(*) filter (where e.action = 'inserted'),
        count(*) filter (where e.action = 'kept'),
        count(*) filter (where e.action = 'replaced'),
        count(*) filter (where e.action = 'pushed_back'),
        count(*) filter (where e.action = 'recorded'),
        count(*) filter (where e.action = 'recent')
    into inserted, kept, replaced, pushed_back, recorded, recent
    from (
        select *
        from unnest(job_execs, entity_names, entity_keys, check_ats, payloads, item_keys, group_keys, withins, unless_ended_withins) with ordinality
            as u (job_exec, entity_name, entity_key, check_at, payload, item_key, group_key, within, unless_ended_within, nth)
        order by entity_name collate "C", entity_key collate "C", job_exec collate "C", item_key collate "C", nth
    ) as g,
    lateral prescient.enqueue(
        g.job_exec, g.entity_name, g.entity_key, g.item_key, g.check_at, g.group_key,
        enqueue_many.on_conflict, enqueue_many.max_wait, g.within, g.unless_ended_within, g.payload::jsonb
    ) as e;
end
$$;
revoke all on function prescient.enqueue_many(text[], text[], text[], text[], timestamptz[], text[], text, interval, interval[], interval[], text[]) from public;
