-- Records the outcome of one row: what rows_finish and rows_move do for many, with plans that are kept. Returns false where the
-- row is gone, which is then its owner's again. One argument, since each costs the server more to read than a field of it.
create or replace function prescient.record_row(o prescient.row_outcome)
returns boolean
language plpgsql
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
    if o.outcome is null then
        target := greatest(o.next_check_at, prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', o.clock));
        update prescient.future_job f
        set next_check_at = target,
            check_count = case o.move when 'next' then f.check_count + 1 else f.check_count end,
            error_count = case o.move when 'next' then 0 when 'retry' then f.error_count + 1 else f.error_count end,
            last_error = coalesce(o.error, f.last_error),
            payload = coalesce(o.payload::prescient.payload, f.payload),
            spent = f.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
            trace = prescient.traced(f.trace, o.entry)
        where f.next_check_at = o.slot and f.job = o.job and f.id = o.id
        returning f.entity_name::text, f.entity_key::text, f.item_key::text, f.request into was;
    else
        with gone as (
            delete from prescient.future_job f
            where f.next_check_at = o.slot and f.job = o.job and f.id = o.id
            returning *
        )
        insert into prescient.future_job_history (
            id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, requested_for, requested_within, request, trace, outcome, lateness, duration, runner
        )
        select
            g.id, o.job_exec, g.entity_name, g.entity_key, g.item_key, g.group_key,
            g.first_check_at, g.next_check_at,
            case when o.outcome in ('done', 'max_checks', 'horizon', 'past') then g.check_count + 1 else g.check_count end,
            case when o.outcome = 'failed' then g.error_count + 1 else g.error_count end,
            coalesce(o.error, g.last_error),
            g.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
            coalesce(o.payload::prescient.payload, g.payload), g.enqueued_at, g.enqueued_by, g.enqueued_app, g.enqueued_actor, g.requested_for, g.requested_within, g.request, g.trace, o.outcome,
            o.lateness::double precision * interval '1 microsecond',
            o.duration::double precision * interval '1 microsecond',
            o.runner
        from gone g
        returning entity_name::text, entity_key::text, item_key::text, request into was;
    end if;
    there := found;
    if not there then
        perform prescient.require_recorded(o.slot, array[o.job], o.id, o.id, array[o.id]);
    end if;
    if (was.request).check_at is not null then
        perform prescient.honour(o.job, was.entity_name, was.entity_key, was.item_key, o.slot, was.request, o.clock, o.outcome);
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
            coalesce(o.duration, 0)::double precision * interval '1 microsecond'
        );
    elsif o.transaction is not null then
        insert into prescient.slot_progress (slot, token, part, job) values (o.slot, o.token, o.part, 0);
    end if;
    return there;
end
$$;
