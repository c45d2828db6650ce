-- Lets a row of a rule wait for an instant. A check that waits already moves to the slot of the instant, and gets the
-- payload; the errors that it had are forgotten. If its slot has begun, the call is recorded on it, and honoured as a
-- request of enqueue with on_conflict replace.
-- Called by the triggers of rules.
create or replace function prescient.rule_wait(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    payload     jsonb default null,
    clock       timestamptz default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    number  bigint := prescient.find_rule(job_exec);
    target  timestamptz;
    waiting record;
begin
    if number is null then
        return;
    end if;
    perform from prescient.future_job where false;
    -- As in enqueue: after a hundred turns the cause is a trigger on future_job.
    for turn in 1 .. 100 loop
        select f.next_check_at, f.id
        into waiting
        from prescient.future_job f
        where f.entity_name = rule_wait.entity_name
            and f.entity_key = rule_wait.entity_key
            and f.job = number
            and f.item_key = ''
        for update;
        if not found then
            target := prescient.due_slot(check_at, clock);
            insert into prescient.future_job as f (job, entity_name, entity_key, first_check_at, next_check_at, payload, requested_for)
            values (number, rule_wait.entity_name, rule_wait.entity_key, target, target, rule_wait.payload, nullif(check_at, target))
            on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
            returning f.next_check_at, f.id
            into waiting;
            continue when not found;
            exit when waiting.next_check_at > coalesce(clock, clock_timestamp());
            -- The insert has waited for another transaction's key over a boundary.
            target := prescient.due_slot(check_at, clock);
            update prescient.future_job f
            set first_check_at = target,
                next_check_at = target,
                requested_for = check_at
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id;
            exit when found;
            perform prescient.raise_suppressed('the update of the new row');
        elsif waiting.next_check_at <= coalesce(clock, clock_timestamp()) then
            exit when prescient.record_request(
                waiting.next_check_at, number, waiting.id, prescient.make_request(check_at, null, rule_wait.payload, null, 'replace', null, null)
            );
        else
            target := prescient.due_slot(check_at, clock);
            update prescient.future_job f
            set next_check_at = target,
                requested_for = check_at,
                requested_within = null,
                error_count = 0,
                last_error = null,
                payload = rule_wait.payload,
                trace = case
                    when target = waiting.next_check_at then f.trace
                    else prescient.traced(f.trace, prescient.journal_entry('rescheduled', waiting.next_check_at))
                end
            where f.next_check_at = waiting.next_check_at and f.job = number and f.id = waiting.id;
            exit when found;
            perform prescient.raise_suppressed('the update of the waiting row');
        end if;
        if turn = 100 then
            perform prescient.raise_suppressed(format(
                'the wait of rule %L, entity_name %L, entity_key %L', job_exec, rule_wait.entity_name, rule_wait.entity_key
            ));
        end if;
    end loop;
end
$$;
revoke all on function prescient.rule_wait(text, text, text, timestamptz, jsonb, timestamptz) from public;
