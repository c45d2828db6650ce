-- Records the outcome of one row, as rows_finish and rows_move do for many, with plans that are kept.
-- Returns false if the row has moved or ended meanwhile. It has one argument, because each argument
-- costs the server more to read than a field of one.
create or replace function prescient.record_row(o prescient.row_outcome)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
declare
    settings text;
    target   timestamptz;
    failed   boolean := o.outcome is not distinct from 'failed' or o.outcome is null and o.move = 'retry';
    there    boolean;
    was      record;
begin
    if o.transaction is not null then
        settings := set_config('application_name', o.session, true) || set_config('lock_timeout', o.lock_timeout, true)
            || set_config('idle_in_transaction_session_timeout', o.idle_timeout, true);
        if pg_current_xact_id_if_assigned()::xid::text is distinct from o.transaction then
            raise exception 'transaction % of the check was ended', o.transaction using errcode = 'PS002';
        elsif o.unlocks and pg_advisory_unlock_all() is null then
            null;
        end if;
    end if;
    if o.outcome is not null then
        there := prescient.end_row(
            o.slot, o.job, o.id, o.job_exec, o.outcome, o.clock, o.error, o.payload, o.lateness, o.duration, o.runner
        );
    else
        target := greatest(o.next_check_at, prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', o.clock));
        update prescient.future_job f
        set next_check_at = target,
            check_count = prescient.checks_after(f.check_count, o.move),
            error_count = prescient.errors_after(f.error_count, o.move),
            last_error = coalesce(o.error, f.last_error),
            payload = coalesce(o.payload::prescient.payload, f.payload),
            spent = f.spent + prescient.microseconds(coalesce(o.duration, 0)),
            journal = prescient.journal_add(f.journal, o.entry)
        where f.next_check_at = o.slot and f.job = o.job and f.id = o.id
        returning f.entity_name::text, f.entity_key::text, f.item_key::text, f.request into was;
        there := found;
        if not there then
            perform prescient.require_recorded(o.slot, array[o.job], o.id, o.id, array[o.id]);
        end if;
        if (was.request).check_at is not null then
            perform prescient.honour(o.job, was.entity_name, was.entity_key, was.item_key, o.slot, was.request, o.clock, null);
        end if;
    end if;
    if o.transaction is not null then
        perform from prescient.slot_claim c where c.token = o.token for key share;
        if not found then
            raise exception 'the lease of claim % is lost', o.token using errcode = 'PS001';
        end if;
    end if;
    if there then
        insert into prescient.slot_progress (slot, token, part, job, bucket, finished, rescheduled, failed, late, error, spent)
        values (
            o.slot, o.token, o.part, o.job, prescient.lateness_bucket(o.lateness),
            (o.outcome is not null and not failed)::integer, (o.outcome is null and not failed)::integer, failed::integer, o.late::integer,
            case when failed then o.error end,
            prescient.microseconds(coalesce(o.duration, 0))
        );
    elsif o.transaction is not null then
        insert into prescient.slot_progress (slot, token, part, job) values (o.slot, o.token, o.part, 0);
    end if;
    return there;
end
$$;
