-- enqueue for a call that enqueue does not end by itself: it has an option, its name is new or belongs to a
-- schedule or a rule, its transaction has one snapshot, its key waits already, or its insert waited until the slot
-- had begun.
-- known: the number of the job, if enqueue has tried the insert. made_id and made_slot are then the row that it
-- made; null: the key waits.
-- Called by enqueue.
create or replace function prescient.enqueue_slowly(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    payload     jsonb,
    item_key    text,
    group_key   text,
    on_conflict text,
    max_wait    interval,
    clock       timestamptz,
    within      interval,
    unless_ended_within interval,
    known       bigint,
    made_id     bigint,
    made_slot   timestamptz,
    out id      bigint,
    out slot    timestamptz,
    out action  text
)
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    number  bigint := known;
    tried   boolean := known is not null;
    target  timestamptz;
    waiting record;
    done    text := 'inserted';
    seconds integer;
    key     text;
    lately  integer; -- unless_ended_within in seconds
    ended   record;
begin
    if number is null then
        perform prescient.require_rights(
            enqueue_slowly.job_exec, prescient.of_schedule(enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key),
            inserts => true
        );
        if clock is not null then
            perform prescient.require_runner(clock);
        end if;
        if on_conflict not in ('keep', 'replace', 'push_back', 'error') or on_conflict is null then
            raise exception 'on_conflict is %; it must be keep, replace, push_back or error', coalesce(quote_literal(on_conflict), 'null')
                using errcode = 'invalid_parameter_value';
        end if;
        if num_nulls(job_exec, entity_name, entity_key, check_at) > 0
            or not prescient.wait_fits(max_wait)
            or check_at > coalesce(clock, clock_timestamp()) + interval '100 years'
        then
            perform prescient.require_given(job_exec, entity_name, entity_key, check_at, max_wait, clock);
        end if;
        perform from prescient.future_job where false;
        number := prescient.ensure_job(job_exec);
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
            elsif lately is not null and enqueue_slowly.item_key is null then
                raise exception 'an anonymous check has no key, so unless_ended_within does not apply; give it an item_key'
                    using errcode = 'invalid_parameter_value';
            elsif lately is not null and current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
                -- A check that has ended since the snapshot is not in it, and leaves no conflict for the insert to find.
                raise exception 'unless_ended_within needs a transaction that is read committed, and this one is %',
                    current_setting('transaction_isolation')
                    using errcode = 'invalid_parameter_value',
                        hint = 'Its snapshot hides a check that ends after it was taken. Enqueue in a transaction that is read committed.';
            end if;
        end if;
    end if;
    check_at := greatest(check_at, timestamptz '1970-01-01 00:00:00+00'); -- as soon as possible, and a request has no earlier one
    -- Each turn ends the call, or finds that another session has ended the conflicting row between two statements.
    -- After a hundred turns the cause is a trigger.
    for turn in 1 .. 100 loop
        if lately is not null and done = 'inserted' then
            -- Only saves the insert. The look after it is the one that counts: the insert may wait
            -- for the end of a row.
            ended := prescient.ended_recently(
                enqueue_slowly.job_exec, enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key, lately, clock
            );
            if ended.id is not null and not exists (
                select
                from prescient.future_job f
                where f.entity_name = enqueue_slowly.entity_name
                    and f.entity_key = enqueue_slowly.entity_key
                    and f.job = number
                    and f.item_key = enqueue_slowly.item_key
            ) then
                enqueue_slowly.id := ended.id;
                enqueue_slowly.slot := ended.slot;
                enqueue_slowly.action := 'recent';
                return;
            end if;
        end if;
        if tried then
            tried := false;
            enqueue_slowly.id := made_id;
            enqueue_slowly.slot := made_slot;
            enqueue_slowly.action := done;
        else
            target := prescient.due_slot(check_at, clock, seconds, key);
            insert into prescient.future_job as f (
                job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, requested_for, requested_within
            )
            values (
                number, enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key, enqueue_slowly.group_key,
                target, target, enqueue_slowly.payload, nullif(check_at, target), seconds
            )
            on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
            returning f.id, f.next_check_at, done
            into enqueue_slowly.id, enqueue_slowly.slot, enqueue_slowly.action;
        end if;
        if enqueue_slowly.id is not null then
            if lately is not null and done = 'inserted' then
                ended := prescient.ended_recently(
                    enqueue_slowly.job_exec, enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key, lately, clock
                );
                if ended.id is not null then
                    delete from prescient.future_job f
                    where f.next_check_at = enqueue_slowly.slot and f.job = number and f.id = enqueue_slowly.id;
                    if not found then
                        perform prescient.raise_suppressed('the delete of the new row');
                    end if;
                    enqueue_slowly.id := ended.id;
                    enqueue_slowly.slot := ended.slot;
                    enqueue_slowly.action := 'recent';
                    return;
                end if;
            end if;
            -- The insert may have waited for another transaction's key over a boundary.
            if enqueue_slowly.slot <= coalesce(clock, clock_timestamp()) then
                target := prescient.due_slot(check_at, clock, seconds, key);
                update prescient.future_job f
                set first_check_at = target,
                    next_check_at = target,
                    requested_for = check_at
                where f.next_check_at = enqueue_slowly.slot and f.job = number and f.id = enqueue_slowly.id;
                if not found then
                    perform prescient.raise_suppressed('the update of the new row');
                end if;
                enqueue_slowly.slot := target;
            end if;
            return;
        end if;

        select f.id, f.next_check_at
        into waiting
        from prescient.future_job f
        where f.entity_name = enqueue_slowly.entity_name
            and f.entity_key = enqueue_slowly.entity_key
            and f.job = number
            and f.item_key = enqueue_slowly.item_key;
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
            and enqueue_slowly.job_exec <> 'schedule'
        then
            continue when not prescient.record_request(
                waiting.next_check_at, number, waiting.id,
                prescient.make_request(check_at, seconds, enqueue_slowly.payload, enqueue_slowly.group_key, on_conflict, max_wait, lately)
            );
            enqueue_slowly.id := waiting.id;
            enqueue_slowly.slot := waiting.next_check_at;
            enqueue_slowly.action := 'recorded';
            return;
        end if;

        if on_conflict = 'replace' then
            if prescient.end_check('replaced', enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.job_exec, enqueue_slowly.item_key) then
                done := 'replaced';
            end if;
            continue;
        end if;
        if on_conflict = 'error' then
            raise exception 'a check of job_exec %, entity_name %, entity_key %, item_key % is waiting already',
                quote_literal(enqueue_slowly.job_exec), quote_literal(enqueue_slowly.entity_name),
                quote_literal(enqueue_slowly.entity_key), quote_literal(enqueue_slowly.item_key)
                using errcode = 'unique_violation', constraint = 'future_job_key', table = 'future_job';
        end if;
        enqueue_slowly.id := waiting.id;
        enqueue_slowly.slot := waiting.next_check_at;
        enqueue_slowly.action := 'kept';
        if on_conflict = 'push_back' then
            -- If the slot begins before this call looks, the next turn records the request.
            enqueue_slowly.slot := prescient.push_back_row(
                number, enqueue_slowly.job_exec, enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key, enqueue_slowly.check_at,
                enqueue_slowly.max_wait, seconds, enqueue_slowly.clock, records => false
            );
            continue when enqueue_slowly.slot is null;
            enqueue_slowly.action := 'pushed_back';
        end if;
        return;
    end loop;
    perform prescient.raise_suppressed(format(
        'the enqueue of job_exec %L, entity_name %L, entity_key %L, item_key %L',
        enqueue_slowly.job_exec, enqueue_slowly.entity_name, enqueue_slowly.entity_key, enqueue_slowly.item_key
    ));
end
$$;
revoke all on function prescient.enqueue_slowly(text, text, text, timestamptz, jsonb, text, text, text, interval, timestamptz, interval, interval, bigint, bigint, timestamptz) from public;
