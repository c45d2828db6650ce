-- Gives a row of a rule another key. What has fired for the row follows it, and so does the check that waits: that of the
-- old key ends as cancelled, and one of the new key waits as it did. A run may have read a check whose slot has begun, so
-- that check keeps its key, and its run finds no such row. The new key is then checked in the next slot.
-- check_at: the first step of a row that counts, or null. The walk of an apply may have passed the new key before it has
-- come to the old one. So while a rule is being applied, the row is checked at that instant at the latest. The same holds
-- in a transaction whose snapshot may be older than the apply. A check that is due fires what has passed, and the apply
-- leaves it as it is.
-- The trigger of deletes comes after those of updates, and a statement may delete the row that had the new key. So the new
-- keys of a statement are noted in a setting of the transaction. One of more than 10,000 bytes stands for all keys.
-- It locks the check first: a run that has locked it records what it fires for the old key.
-- Called by the triggers of rules.
create or replace function prescient.rule_rename(
    job_exec    text,
    entity_name text,
    old_key     text,
    new_key     text,
    check_at    timestamptz,
    clock       timestamptz default null
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
    of_job  bigint := prescient.find_rule(job_exec);
    was     prescient.future_job;
    copy    json; -- of a row on its way from another store
    renamed text := ',"from":' || to_json(old_key) || '}';
    made    record;
    target  timestamptz;
    begun   text := extract(epoch from statement_timestamp())::text || E'\n';
    renamed_keys text := coalesce(current_setting('prescient_rules.renamed', true), '');
begin
    if of_job is null then
        return;
    elsif octet_length(new_key) not between 1 and 500 then
        perform prescient.cancel_keys(rule_rename.job_exec, rule_rename.entity_name, array[rule_rename.old_key], rule_rename.clock);
        return;
    end if;
    if not starts_with(renamed_keys, begun) then
        renamed_keys := begun;
    end if;
    if octet_length(renamed_keys) <= 10000 then
        perform set_config('prescient_rules.renamed', renamed_keys || job_exec || '/' || new_key || E'\n', true);
    end if;
    perform from prescient.future_job where false;
    -- First, as in end_checks.
    update prescient.transfer_in i
    set outcome = 'cancelled',
        told = prescient.journal_entry('cancelled', timestamptz 'epoch')
    where i.entity_name = rule_rename.entity_name
        and i.entity_key = rule_rename.old_key
        and i.job_exec = rule_rename.job_exec
        and i.item_key = ''
        and i.outcome is null
    returning i.data
    into copy;
    was := json_populate_record(null::prescient.future_job, copy);
    -- A row that another transaction has moved is not there once it is locked, and the next turn finds it.
    for turn in 1 .. case when copy is null then 100 else 0 end loop
        select f.*
        into was
        from prescient.future_job f
        where f.entity_name = rule_rename.entity_name
            and f.entity_key = rule_rename.old_key
            and f.job = of_job
            and f.item_key = '';
        exit when not found;
        select f.*
        into was
        from prescient.future_job f
        where f.next_check_at = was.next_check_at and f.job = of_job and f.id = was.id
        for update;
        exit when found;
    end loop;

    delete from prescient.rule_changed c
    where c.job = of_job
        and c.entity_key = rule_rename.new_key
        and exists (select from prescient.rule_changed o where o.job = of_job and o.entity_key = rule_rename.old_key);
    update prescient.rule_changed c
    set entity_key = rule_rename.new_key
    where c.job = of_job and c.entity_key = rule_rename.old_key;

    with gone as (
        delete from prescient.rule_fired f
        where f.job = of_job and f.entity_key = rule_rename.old_key
        returning f.since, f.start, f.step, f.number, f.times, f.fired_at, f.first_at, f.due_at, f.left_before, coalesce(f.key_then, f.entity_key) as key_then
    )
    insert into prescient.rule_fired (job, entity_key, since, start, step, number, times, fired_at, first_at, due_at, left_before, key_then)
    select of_job, rule_rename.new_key, g.since, g.start, g.step, g.number, g.times, g.fired_at, g.first_at, g.due_at, g.left_before, g.key_then
    from gone g
    on conflict do nothing;

    if was.next_check_at is not null then
        renamed := rtrim(prescient.journal_entry('renamed', was.next_check_at), '}') || renamed;
        if copy is null and was.next_check_at > coalesce(clock, clock_timestamp()) then
            delete from prescient.future_job f
            where f.next_check_at = was.next_check_at and f.job = of_job and f.id = was.id;
            if not found then
                perform prescient.raise_suppressed('the delete of the waiting row');
            end if;
            -- Its checks and its timeline go on under the new key.
            insert into prescient.future_job_history (
                id, job_exec, slot, {{kept}},
                check_count, error_count, spent, payload, journal, outcome
            )
            values (
                was.id, rule_rename.job_exec, was.next_check_at, {{was.kept}},
                0, 0, '0', was.payload,
                rtrim(prescient.journal_entry('cancelled', was.next_check_at), '}') || ',"to":' || to_json(new_key) || '}',
                'cancelled'
            );
        elsif (was.request).check_at is not null then
            was.payload := (was.request).payload;
            update prescient.future_job f
            set request = null
            where f.next_check_at = was.next_check_at and f.job = of_job and f.id = was.id;
        end if;
        was.entity_key := new_key;
        insert into prescient.future_job as f (
            job, next_check_at, {{kept}},
            check_count, error_count, last_error, spent, journal, payload, enqueued_traceparent
        )
        values (
            of_job, prescient.due_slot(was.next_check_at, clock), {{was.kept}},
            was.check_count, was.error_count, was.last_error, was.spent, prescient.journal_add(was.journal, renamed), was.payload,
            was.enqueued_traceparent
        )
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning f.next_check_at, f.id
        into made;
        if not found then -- a check of a row that had the key before, such as one that a truncate has removed
            perform prescient.rule_wait(
                rule_rename.job_exec, rule_rename.entity_name, rule_rename.new_key, was.next_check_at, was.payload, rule_rename.clock
            );
        elsif made.next_check_at <= coalesce(clock, clock_timestamp()) then
            -- The insert has waited for another transaction's key over a boundary.
            target := prescient.due_slot(was.next_check_at, clock);
            update prescient.future_job f
            set next_check_at = target
            where f.next_check_at = made.next_check_at and f.job = of_job and f.id = made.id;
            if not found then
                perform prescient.raise_suppressed('the update of a new row');
            end if;
        end if;
    end if;
    if rule_rename.check_at < coalesce(was.next_check_at, timestamptz 'infinity')
        and (was.next_check_at <= coalesce(clock, clock_timestamp())) is not true
        and (
            current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
            or exists (select from prescient.rule r where r.name = rule_rename.job_exec and r.state = 'applying')
        )
    then
        perform prescient.rule_wait(
            rule_rename.job_exec, rule_rename.entity_name, rule_rename.new_key, rule_rename.check_at, null,
            rule_rename.clock,
            -- In a transaction with a snapshot, no apply may be at work: a check that waited goes on as it did.
            case
                when was.next_check_at is null or current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
                    then coalesce(rule_rename.clock, transaction_timestamp())
            end,
            true
        );
    end if;
end
$$;
revoke all on function prescient.rule_rename(text, text, text, text, timestamptz, timestamptz) from public;
