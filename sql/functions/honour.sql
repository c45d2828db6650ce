-- Honours a request, which an enqueue has recorded on a row that was due. The outcome of the row's
-- check is recorded now. If the row has ended, a new row waits for the requested instant. If it waits for a
-- later slot, on_conflict decides as it does in enqueue: keep drops the request. If the row has
-- ended as done, or its key has within unless_ended_within, the request is dropped too, if it has
-- that condition. slot: the slot that the row was in. outcome: how it ended; null: it waits.
-- Called by everything that records an outcome, in the same transaction: end_row, record_row,
-- rows_finish, rows_finish_alike, finish_rows_apart, honour_moved; and by reschedule.
create or replace function prescient.honour(
    number      bigint,
    entity_name text,
    entity_key  text,
    item_key    text,
    slot        timestamptz,
    request     prescient.request,
    clock       timestamptz,
    outcome     text
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
    -- Null while the transaction of the job's first enqueue is open. Then any slot of a window is right.
    name   text := (select j.name from prescient.job j where j.job = number);
    key    text := prescient.window_key(name, entity_name, entity_key, item_key);
    entry  text := prescient.journal_entry('honoured', slot);
    target timestamptz;
begin
    -- The row of this end may not be in history yet: the statement that ends it is still running.
    if outcome is not null
        and request.unless_ended_within is not null
        and (
            outcome = 'done'
            or (select e.id from prescient.ended_recently(name, entity_name, entity_key, item_key, request.unless_ended_within, clock) as e) is not null
        )
    then
        return;
    end if;
    loop
        target := prescient.due_slot(request.check_at, clock, case when key is not null then request.within end, key);
        insert into prescient.future_job as f (
            job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, journal,
            enqueued_at, enqueued_by, enqueued_app, enqueued_actor, enqueued_traceparent, requested_for,
            requested_within
        )
        values (
            number, honour.entity_name, honour.entity_key, honour.item_key, request.group_key, target, target,
            request.payload, entry, request.enqueued_at, request.enqueued_by, request.enqueued_app,
            request.enqueued_actor, request.enqueued_traceparent, nullif(request.check_at, target), request.within
        )
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing;
        exit when found;
        update prescient.future_job f
        set request = null
        where f.entity_name = honour.entity_name
            and f.entity_key = honour.entity_key
            and f.job = number
            and f.item_key = honour.item_key;
        if not found then
            perform prescient.raise_suppressed('the insert of the row that was asked for, or the update of the one that waits');
        end if;
        if request.on_conflict = 'push_back' then
            perform prescient.push_back_row(
                number, name, honour.entity_name, honour.entity_key, honour.item_key, request.check_at, request.max_wait,
                request.within, clock
            );
        end if;
        exit when request.on_conflict <> 'replace';
        perform prescient.end_check('replaced', honour.entity_name, honour.entity_key, name, honour.item_key, number);
    end loop;
end
$$;
revoke all on function prescient.honour(bigint, text, text, text, timestamptz, prescient.request, timestamptz, text) from public;
