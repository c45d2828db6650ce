-- Enqueues one check. check_at must be given: it has a default only because the key comes before it. A null item_key makes it anonymous. If the key waits already, on_conflict
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
-- pruned from history do not count. A transaction with one snapshot cannot see a row that ends beside
-- it, so the condition is an error there.
-- The call ends with triggered_data_change_violation if a trigger on future_job suppresses the
-- change or changes the key.
-- A row whose slot has begun is due, and stays due: otherwise a key that is enqueued again and
-- again would never be checked. But its check may have begun already, and see nothing of this
-- transaction. So the call is recorded on the row, as a request; see record_request. The
-- transaction that records the outcome of the check honours it; see honour. action is then
-- recorded, and id and slot are those of the due row. error refuses a due row too.
-- The setting prescient_caller.clock of a runner's session takes the place of the database's clock, to replay the past or the
-- future. Any other role that sets it gets an error; see require_runner.
-- The row of a schedule belongs to the schedule. Its changes hold the schedule's lock, and may
-- replace the row.
create or replace function prescient.enqueue(
    job_exec    text,
    entity_name text,
    entity_key  text,
    item_key    text default '',
    check_at    timestamptz default null,
    group_key   text default null,
    on_conflict text default 'keep',
    max_wait    interval default null,
    within      interval default null,
    unless_ended_within interval default null,
    payload     jsonb default null,
    out id      bigint,
    out slot    timestamptz,
    out action  text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    clock  timestamptz := nullif(current_setting('prescient_caller.clock', true), '')::timestamptz;
    width  interval;
    number bigint;
    plain  boolean; -- the name is an application's, in a snapshot of now, and only the key decides
    target timestamptz;
begin
    -- One query and few expressions, because a transaction prepares each of them again. The query also locks the table
    -- before it reads the width, as set_width does.
    select
        s.width, j.job,
        j.job is not null and r.name is null and 'schedule' not in (enqueue.job_exec, enqueue.entity_name)
        and num_nulls(enqueue.entity_name, enqueue.entity_key, enqueue.check_at) = 0
        and enqueue.check_at <= statement_timestamp() + interval '100 years'
        and prescient.wait_fits(enqueue.max_wait) is not false
        and enqueue.on_conflict in ('keep', 'replace', 'push_back', 'error')
        and num_nonnulls(clock, enqueue.within, enqueue.unless_ended_within) = 0
        and current_setting('transaction_isolation') in ('read committed', 'read uncommitted') -- see require_rights
    into width, number, plain
    from prescient.setting s
    left join prescient.job j on j.name = enqueue.job_exec
    left join prescient.rule r on r.name = enqueue.job_exec
    left join prescient.future_job on false;
    if plain then
        -- As due_slot, which takes the number of the transaction before it asks the clock, too.
        target := case
            when pg_current_xact_id() is not null
                then greatest(prescient.slot_ceil(check_at, width), prescient.slot_floor(clock_timestamp(), width) + width)
        end;
        insert into prescient.future_job as f (
            job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, requested_for
        )
        values (
            number, enqueue.entity_name, enqueue.entity_key, enqueue.item_key, enqueue.group_key, target, target, enqueue.payload,
            nullif(check_at, target)
        )
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning f.id, f.next_check_at, 'inserted'
        into enqueue.id, enqueue.slot, enqueue.action;
        -- The insert may have waited for another transaction's key until the slot had begun.
        if enqueue.slot > clock_timestamp() then
            return;
        end if;
    end if;
    select e.id, e.slot, e.action
    into enqueue.id, enqueue.slot, enqueue.action
    from prescient.enqueue_slowly(
        enqueue.job_exec, enqueue.entity_name, enqueue.entity_key, enqueue.check_at, enqueue.payload, enqueue.item_key, enqueue.group_key,
        enqueue.on_conflict, enqueue.max_wait, clock, enqueue.within, enqueue.unless_ended_within,
        case when plain then number end, enqueue.id, enqueue.slot
    ) as e;
end
$$;
revoke all on function prescient.enqueue(text, text, text, text, timestamptz, text, text, interval, interval, interval, jsonb) from public;
