-- Lets a row of a rule wait for an instant. A check that waits already moves to the slot of the instant, and gets the
-- payload; the errors that it had are forgotten. If its slot has begun, the call is recorded on it, and honoured as a
-- request of enqueue with on_conflict replace.
-- came: when the row came to the rule, at the latest. If its first step may have passed then, the payload says so, and
-- the check decides about the steps that have. again: the clock of the row runs as before, so a check that waits keeps
-- what its payload says about steps, and an earlier slot. A payload with from is then for a check that does not wait yet.
-- stays: a check that waits also keeps what its payload says of when the row came.
-- fresh: the row was inserted, so a check of its key rarely waits. Not to look for it first saves the time, and a
-- serializable transaction does not read where others insert. A check that waits does not move later, because a trigger of
-- the application may have moved the clock of the row earlier by now. The check finds out.
-- Of a rule with recovered, no check that waits moves later: it may have to tell in the next slot that an earlier start of
-- the clock is over.
-- Called by the triggers of rules.
create or replace function prescient.rule_wait(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    payload     jsonb default null,
    clock       timestamptz default null,
    came        timestamptz default null,
    again       boolean default false,
    fresh       boolean default false,
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
    number  bigint;
    width   interval;
    fits    boolean;
    stands  boolean; -- a check that waits does not move later
    written boolean := false;
    target  timestamptz;
    waiting record;
    kept    text; -- the journal of the row
    added   jsonb; -- to the payload of a check that waits
    moved   boolean := false; -- by the turn before, into a slot that began while the update waited
begin
    if check_at < came then
        payload := jsonb_build_object('came', to_char(came at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
    end if;
    -- One query and few expressions, as in enqueue: a transaction prepares each of them again.
    select j.job, s.width, octet_length(rule_wait.entity_key) between 1 and 500, fresh or r.recovers_at is not null
    into number, width, fits, stands
    from prescient.setting s
    left join (prescient.job j join prescient.rule r on r.name = j.name) on j.name = rule_wait.job_exec
    left join prescient.future_job on false;
    if not fits then
        raise exception 'a row of rule % has a key of % bytes: want 1 to 500', quote_literal(job_exec), octet_length(entity_key)
            using errcode = 'check_violation',
                hint = 'Leave such rows out: write where: octet_length(KEY) between 1 and 500 into the rule, and apply it.';
    end if;
    if number is null then
        number := prescient.find_rule(job_exec);
        if number is null then
            return;
        end if;
    end if;
    if again and not stays then
        added := nullif(payload - 'from', '{}');
    end if;
    -- As in enqueue: after a hundred turns the cause is a trigger on future_job.
    for turn in 1 .. 100 loop
        if turn > 1 or not fresh then
            select f.next_check_at, f.id, f.journal, f.payload, coalesce(f.requested_for, f.first_check_at) as requested
            into waiting
            from prescient.future_job f
            where f.entity_name = rule_wait.entity_name
                and f.entity_key = rule_wait.entity_key
                and f.job = number
                and f.item_key = '';
        end if;
        if turn = 1 and fresh or not found then
            -- As due_slot, which takes the number of the transaction before it asks the clock, too.
            target := case
                when pg_current_xact_id() is not null then greatest(
                    prescient.slot_ceil(check_at, width), prescient.slot_floor(coalesce(clock, clock_timestamp()), width) + width
                )
            end;
            insert into prescient.future_job as f (
                job, entity_name, entity_key, first_check_at, next_check_at, payload, requested_for
            )
            values (
                number, rule_wait.entity_name, rule_wait.entity_key, target, target, rule_wait.payload,
                nullif(check_at, target)
            )
            on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
            returning f.next_check_at, f.id, f.journal, f.payload
            into waiting;
            continue when not found;
            written := waiting.next_check_at > coalesce(clock, clock_timestamp());
            exit when written;
            -- The insert has waited for another transaction's key over a boundary.
            target := prescient.due_slot(check_at, clock);
            update prescient.future_job f
            set first_check_at = target,
                next_check_at = target,
                requested_for = check_at
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id;
            written := found;
        elsif waiting.next_check_at <= coalesce(clock, clock_timestamp()) and not moved then
            written := prescient.record_request(
                waiting.next_check_at, number, waiting.id,
                prescient.make_request(
                    greatest(check_at, timestamptz 'epoch'), null,
                    case when again then coalesce(waiting.payload || added, added, waiting.payload) else payload end,
                    null, 'replace', null, null
                )
            );
        else
            target := prescient.due_slot(check_at, clock);
            if stands and target > waiting.next_check_at and not moved then
                target := waiting.next_check_at;
                check_at := waiting.requested;
                payload := coalesce(payload, jsonb_build_object('came', waiting.payload -> 'came'));
                payload := nullif(jsonb_strip_nulls(payload), '{}');
            end if;
            if again and added is null and target >= waiting.next_check_at and not moved then
                if current_setting('transaction_isolation') <> 'read committed' then
                    -- The snapshot may be older than the check is: the lock fails with 40001 if that has changed.
                    perform
                    from prescient.future_job f
                    where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id
                    for update;
                end if;
                return;
            end if;
            kept := waiting.journal;
            if target <> waiting.next_check_at and not moved then
                -- As an assignment, whose plan is kept. In the update, both functions would be planned for
                -- each row, at two thirds of its cost.
                kept := prescient.journal_entry('rescheduled', waiting.next_check_at);
                kept := prescient.journal_add(waiting.journal, kept);
            end if;
            update prescient.future_job f
            set next_check_at = target,
                requested_for = check_at,
                requested_within = null,
                error_count = 0,
                last_error = null,
                payload = case when again then coalesce(f.payload || added, added, f.payload) else rule_wait.payload end,
                journal = kept
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id;
            -- The update may have waited for another transaction: for one that has ended or moved the row,
            -- or over a boundary.
            moved := found and target <> waiting.next_check_at;
            written := found and target > coalesce(clock, clock_timestamp());
        end if;
        exit when written;
    end loop;
    if not written then
        perform prescient.raise_suppressed(format(
            'the wait of rule %L, entity_name %L, entity_key %L', job_exec, rule_wait.entity_name, rule_wait.entity_key
        ));
    end if;
end
$$;
revoke all on function prescient.rule_wait(text, text, text, timestamptz, jsonb, timestamptz, timestamptz, boolean, boolean, boolean) from public;
