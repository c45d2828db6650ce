-- Enqueues one check. A null item_key makes it anonymous. If the key waits already, on_conflict
-- decides: keep (the waiting row stays), replace (it goes to history and the new row takes its
-- place), push_back (see there; max_wait is only for it) or error (unique_violation).
-- action tells what was done: inserted, kept, replaced, pushed_back, recorded or recent.
-- within: any slot from the first one at or after check_at that is before check_at + within, in
-- whole seconds; a day has 24 hours. The slot follows from job_exec, entity_name, entity_key and
-- item_key alone, and never changes; see pick_slot. If no slot lies in the window, it is the first one
-- at or after check_at, as without within.
-- unless_ended_within: if the key does not wait, and its last check that ended as done did so in
-- that time, nothing is enqueued. A day has 24 hours. action is then recent, and id and slot are
-- those of the ended row. A request that is recorded keeps the condition; see honour. Rows that were
-- pruned from history do not count.
-- The call ends with triggered_data_change_violation if a trigger on future_job suppresses the
-- change or changes the key.
-- A row whose slot has begun is due, and stays due: otherwise a key that is enqueued again and
-- again would never be checked. But its check may have begun already, and see nothing of this
-- transaction. So the call is recorded on the row, as a request; see record_request. The
-- transaction that records the outcome of the check honours it; see honour. action is then
-- recorded, and id and slot are those of the due row. error refuses a due row too.
-- The row of a schedule belongs to the schedule. Its changes hold the schedule's lock, and may
-- replace the row.
create or replace function prescient.enqueue(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    payload     jsonb default null,
    item_key    text default '',
    group_key   text default null,
    on_conflict text default 'keep',
    max_wait    interval default null,
    clock       timestamptz default null,
    within      interval default null,
    unless_ended_within interval default null,
    out id      bigint,
    out slot    timestamptz,
    out action  text
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
    number  bigint;
    target  timestamptz;
    waiting record;
    done    text := 'inserted';
    seconds integer;
    key     text;
    lately  integer; -- unless_ended_within in seconds
    ended   record;
begin
    perform prescient.require_rights(enqueue.job_exec);
    if clock is not null then
        perform prescient.require_runner(clock);
    end if;
    if on_conflict not in ('keep', 'replace', 'push_back', 'error') or on_conflict is null then
        raise exception 'on_conflict is %; it must be keep, replace, push_back or error', coalesce(quote_literal(on_conflict), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nulls(job_exec, entity_name, entity_key, check_at) > 0
        or max_wait < interval '0'
        or check_at > coalesce(clock, clock_timestamp()) + interval '100 years'
    then
        perform prescient.require_given(job_exec, entity_name, entity_key, check_at, max_wait, clock);
    end if;
    perform from prescient.future_job where false;
    select j.job into number from prescient.job j where j.name = enqueue.job_exec;
    if not found then
        number := prescient.ensure_job(job_exec);
    end if;
    if within is not null then
        seconds := prescient.within_seconds(within);
        if seconds not between 1 and 31622400 then
            raise exception 'within is %; it must be from 0 to 366 days', within
                using errcode = 'check_violation', constraint = 'future_job_within', table = 'future_job';
        end if;
        key := prescient.window_key(job_exec, entity_name, entity_key, item_key);
    end if;
    if unless_ended_within is not null then
        lately := prescient.within_seconds(unless_ended_within);
        if lately not between 1 and 31622400 then
            raise exception 'unless_ended_within is %; it must be from 0 to 366 days', unless_ended_within
                using errcode = 'invalid_parameter_value';
        elsif lately is not null and enqueue.item_key is null then
            raise exception 'an anonymous check has no key, so unless_ended_within does not apply; give it an item_key'
                using errcode = 'invalid_parameter_value';
        end if;
    end if;
    -- Each turn ends the call, or finds that another session has ended the conflicting row between two statements.
    -- After a hundred turns the cause is a trigger.
    for turn in 1 .. 100 loop
        if lately is not null and done = 'inserted' then
            -- Only saves the insert. The look after it is the one that counts: the insert may wait
            -- for the end of a row.
            ended := prescient.ended_recently(enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, lately, clock);
            if ended.id is not null and not exists (
                select
                from prescient.future_job f
                where f.entity_name = enqueue.entity_name
                    and f.entity_key = enqueue.entity_key
                    and f.job = number
                    and f.item_key = enqueue.item_key
            ) then
                enqueue.id := ended.id;
                enqueue.slot := ended.slot;
                enqueue.action := 'recent';
                return;
            end if;
        end if;
        target := prescient.due_slot(check_at, clock, seconds, key);
        insert into prescient.future_job as f (
            job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, requested_for, requested_within
        )
        values (
            number, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, enqueue.group_key, target, target, enqueue.payload,
            nullif(check_at, target), seconds
        )
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning f.id, f.next_check_at, done
        into enqueue.id, enqueue.slot, enqueue.action;
        if found then
            if lately is not null and done = 'inserted' then
                ended := prescient.ended_recently(enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, lately, clock);
                if ended.id is not null then
                    delete from prescient.future_job f
                    where f.next_check_at = enqueue.slot and f.job = number and f.id = enqueue.id;
                    if not found then
                        perform prescient.raise_suppressed('the delete of the new row');
                    end if;
                    enqueue.id := ended.id;
                    enqueue.slot := ended.slot;
                    enqueue.action := 'recent';
                    return;
                end if;
            end if;
            -- The insert may have waited for another transaction's key over a boundary.
            if enqueue.slot <= coalesce(clock, clock_timestamp()) then
                target := prescient.due_slot(check_at, clock, seconds, key);
                update prescient.future_job f
                set first_check_at = target,
                    next_check_at = target,
                    requested_for = check_at
                where f.next_check_at = enqueue.slot and f.job = number and f.id = enqueue.id;
                if not found then
                    perform prescient.raise_suppressed('the update of the new row');
                end if;
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
        -- Whether the row is due is decided once it is locked: a check in a transaction may have locked it, and end it.
        if on_conflict in ('replace', 'push_back') or on_conflict = 'error' and waiting.next_check_at <= coalesce(clock, clock_timestamp()) then
            perform
            from prescient.future_job f
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id
            for update;
            continue when not found;
        end if;
        if waiting.next_check_at <= coalesce(clock, clock_timestamp())
            and on_conflict <> 'error'
            and enqueue.job_exec <> 'schedule'
        then
            continue when not prescient.record_request(
                waiting.next_check_at, number, waiting.id,
                prescient.make_request(check_at, seconds, enqueue.payload, enqueue.group_key, on_conflict, max_wait, lately)
            );
            enqueue.id := waiting.id;
            enqueue.slot := waiting.next_check_at;
            enqueue.action := 'recorded';
            return;
        end if;

        if on_conflict = 'replace' then
            if prescient.end_checks('replaced', enqueue.entity_name, enqueue.entity_key, enqueue.job_exec, enqueue.item_key) > 0 then
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
            -- If the slot begins before this call looks, the next turn records the request.
            enqueue.slot := prescient.push_back_row(
                number, enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, enqueue.check_at,
                enqueue.max_wait, seconds, enqueue.clock, records => false
            );
            continue when enqueue.slot is null;
            enqueue.action := 'pushed_back';
        end if;
        return;
    end loop;
    perform prescient.raise_suppressed(format(
        'the enqueue of job_exec %L, entity_name %L, entity_key %L, item_key %L',
        enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.item_key
    ));
end
$$;
revoke all on function prescient.enqueue(text, text, text, timestamptz, jsonb, text, text, text, interval, timestamptz, interval, interval) from public;
