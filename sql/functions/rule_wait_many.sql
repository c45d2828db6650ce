-- Lets many rows of a rule wait, as rule_wait does for one, given as arrays of one length. It locks
-- and writes them in one pass, in the order of their keys, so that it never deadlocks with another
-- function. Of a key that is given twice, one instant counts.
-- again: the clocks of the rows run as before, as for rule_wait. stays: a check that waits also keeps what its payload says
-- of when the row came.
-- Called by the triggers of rules.
create or replace function prescient.rule_wait_many(
    job_exec    text,
    entity_name text,
    entity_keys text[],
    check_ats   timestamptz[],
    clock       timestamptz default null,
    came        timestamptz default null,
    again       boolean default false,
    stays       boolean default false
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    number         bigint := prescient.find_rule(job_exec);
    grid           interval;
    first          timestamptz;
    later          timestamptz;
    written        bigint[];
    keys           text[];
    made           record;
    others         record; -- checks that wait, and that were locked
    late           jsonb := jsonb_build_object('came', to_char(came at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
    enqueued_by    text := coalesce(nullif(current_setting('role'), 'none'), session_user);
    enqueued_app   text := nullif(current_setting('application_name'), '');
    enqueued_actor text := left(nullif(current_setting('prescient_caller.actor', true), ''), 500);
    enqueued_traceparent text := left(nullif(current_setting('prescient_caller.traceparent', true), ''), 500);
begin
    if number is null then
        return;
    end if;
    if exists (select from unnest(entity_keys) as k (entity_key) where octet_length(k.entity_key) not between 1 and 500) then
        -- Raises the error of one row.
        perform prescient.rule_wait(rule_wait_many.job_exec, rule_wait_many.entity_name, k.entity_key, timestamptz 'epoch')
        from unnest(entity_keys) as k (entity_key)
        where octet_length(k.entity_key) not between 1 and 500;
    end if;
    perform from prescient.future_job where false;
    grid := (select width from prescient.setting);
    first := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);
    -- Row by row, because Citus reports the number of given rows as that of inserted ones.
    for made in
        with given as (
            select distinct on (u.entity_key collate "C") u.entity_key, u.check_at, greatest(prescient.slot_ceil(u.check_at, grid), first) as target
            from unnest(entity_keys, check_ats) as u (entity_key, check_at)
            order by u.entity_key collate "C"
        )
        insert into prescient.future_job (
            job, entity_name, entity_key, first_check_at, next_check_at, payload, requested_for,
            enqueued_by, enqueued_app, enqueued_actor, enqueued_traceparent
        )
        select
            number, rule_wait_many.entity_name, entity_key, target, target, case when check_at < came then late end,
            nullif(check_at, target),
            enqueued_by, enqueued_app, enqueued_actor, enqueued_traceparent
        from given
        -- Only locks a row that waits, in its turn.
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do update
        set journal = excluded.journal
        where false
        returning id, entity_key
    loop
        written := written || made.id;
        keys := keys || made.entity_key::text;
    end loop;
    later := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);
    if later > first then -- the insert has waited for another transaction's key over a boundary
        for made in
            select f.next_check_at, f.id
            from prescient.future_job f
            where f.next_check_at >= first and f.next_check_at < later and f.job = number and f.id = any (written)
        loop
            update prescient.future_job f
            set first_check_at = later,
                next_check_at = later,
                requested_for = coalesce(f.requested_for, f.first_check_at)
            where f.next_check_at = made.next_check_at and f.job = number and f.id = made.id;
            if not found then
                perform prescient.raise_suppressed('the update of a new row');
            end if;
        end loop;
    end if;
    if cardinality(entity_keys) > coalesce(cardinality(written), 0) then
        -- Some keys wait already, such as those of rows that a truncate has removed.
        if again then
            select
                array_agg(k.entity_key) as keys, array_agg(f.next_check_at) as slots, array_agg(f.id) as ids,
                array_agg(coalesce(f.requested_for, f.first_check_at)) as requested, array_agg(k.check_at) as check_ats,
                array_agg(case when not stays and k.check_at < came then late::text end) as payloads
            into others
            from (
                select u.entity_key, u.check_at
                from unnest(entity_keys, check_ats) as u (entity_key, check_at)
                where not exists (select from unnest(keys) as k (entity_key) where k.entity_key = u.entity_key)
            ) as k
            cross join lateral (
                select f.next_check_at, f.id, f.requested_for, f.first_check_at
                from prescient.future_job f
                where f.entity_name = rule_wait_many.entity_name
                    and f.entity_key = k.entity_key
                    and f.job = number
                    and f.item_key = ''
                limit 1
            ) as f
            where f.next_check_at <> later or not stays; -- one that is due gets a request below
            if others.ids is null
                or cardinality(others.ids) = prescient.retime(
                    rule_wait_many.job_exec, others.slots, others.ids, others.requested, others.check_ats, others.payloads, rule_wait_many.clock
                )
            then
                return;
            end if;
        end if;
        perform prescient.rule_wait(
            rule_wait_many.job_exec, rule_wait_many.entity_name, u.entity_key, u.check_at, null, clock, came,
            again => rule_wait_many.again, fresh => not rule_wait_many.again, stays => rule_wait_many.stays
        )
        from unnest(entity_keys, check_ats) as u (entity_key, check_at)
        where not exists (select from unnest(keys) as k (entity_key) where k.entity_key = u.entity_key)
        order by u.entity_key collate "C";
    end if;
end
$$;
revoke all on function prescient.rule_wait_many(text, text, text[], timestamptz[], timestamptz, timestamptz, boolean, boolean) from public;
