-- Least privilege: five roles without a login. Give them to logins: grant prescient_app to shop;
--
--   owner     owns the tables and functions, and may migrate
--   app       may call the functions that ask for checks, cancel and move them; no table at all
--   reader    may read everything
--   runner    runs slots, catches up, publishes events and changes schedules; is an app and a reader, too
--   operator  pauses, retries, prunes, acknowledges events, changes the width and moves rows to other stores; is a runner, too
--
-- It may be run again, and says what is allowed anew. It needs CREATEROLE where a role is missing, and a member of the
-- owner, or whoever made the schema and may create in the database. The roles are those of the whole server.

select pg_advisory_xact_lock(hashtextextended('prescient.roles', 0));

do $$
declare
    part text;
begin
    foreach part in array array['owner', 'app', 'reader', 'runner', 'operator'] loop
        if to_regrole('prescient_' || part) is null then
            execute format('create role %I nologin', 'prescient_' || part);
        end if;
    end loop;
    -- Only a member of the owner may hand over to it.
    if not pg_has_role(current_user, 'prescient_owner', 'usage') then
        execute format('grant prescient_owner to %I', current_user);
    end if;
    if not pg_has_role('prescient_runner', 'prescient_app', 'member') then
        grant prescient_app to prescient_runner;
    end if;
    if not pg_has_role('prescient_runner', 'prescient_reader', 'member') then
        grant prescient_reader to prescient_runner;
    end if;
    if not pg_has_role('prescient_operator', 'prescient_runner', 'member') then
        grant prescient_runner to prescient_operator;
    end if;
end
$$;

do $$
declare
    command text;
begin
    for command in
        select 'schema prescient'
        from pg_namespace n
        where n.nspname = 'prescient' and n.nspowner <> 'prescient_owner'::regrole
        union all
        select 'table ' || c.oid::regclass
        from pg_class c
        where c.relnamespace = 'prescient'::regnamespace and c.relkind in ('r', 'p') and c.relowner <> 'prescient_owner'::regrole
        union all
        select 'routine ' || p.oid::regprocedure
        from pg_proc p
        where p.pronamespace = 'prescient'::regnamespace and p.proowner <> 'prescient_owner'::regrole
    loop
        execute 'alter ' || command || ' owner to prescient_owner';
    end loop;
end
$$;

revoke all on all routines in schema prescient from public, prescient_app, prescient_reader, prescient_runner, prescient_operator;
revoke all on all tables in schema prescient from public, prescient_app, prescient_reader, prescient_runner, prescient_operator;
grant usage on schema prescient to prescient_app, prescient_reader;

grant execute on function
    prescient.settings, prescient.slot_floor, prescient.slot_ceil(timestamptz, interval), prescient.slot_ceil(timestamptz),
    prescient.enqueue, prescient.enqueue_many, prescient.cancel, prescient.cancel_entity, prescient.reschedule,
    prescient.push_back, prescient.lock_group, prescient.store
to prescient_app;

grant select on all tables in schema prescient to prescient_reader;
grant execute on function
    prescient.settings, prescient.slot_floor, prescient.slot_ceil(timestamptz, interval), prescient.slot_ceil(timestamptz),
    prescient.number_of, prescient.jobs_in_slot, prescient.rows_in_slot, prescient.why, prescient.trace_check, prescient.trace_value, prescient.trace_abroad,
    prescient.ended_before, prescient.read_events,
    prescient.store
to prescient_reader;

grant execute on procedure prescient.slot_index_only to prescient_reader;
grant execute on procedure prescient.wait_for_locks to prescient_runner;

grant insert on prescient.job, prescient.future_job_history, prescient.event_outbox to prescient_runner;
grant insert, update, delete
on prescient.future_job, prescient.slot_job, prescient.slot_claim, prescient.slot_tally, prescient.slot_lateness,
    prescient.job_place, prescient.job_pace, prescient.schedule, prescient.schedule_drop
to prescient_runner;
grant insert, update on prescient.slot_run to prescient_runner;
grant insert, delete on prescient.learned_curve to prescient_runner;
grant update (registered_at, sla) on prescient.job to prescient_runner;
grant execute on function
    prescient.job_number, prescient.slot_target, prescient.lock_slot, prescient.look_into_slot,
    prescient.slot_is_claimable, prescient.end_sessions, prescient.open_slot, prescient.claim_rows, prescient.take_over,
    prescient.fence, prescient.close_slot, prescient.begin_check, prescient.same_check, prescient.record_row,
    prescient.move_rows, prescient.move_rows_alike, prescient.finish_rows_apart,
    prescient.make_history_month, prescient.make_history_months, prescient.register_jobs, prescient.lateness_bucket,
    prescient.traced, prescient.trace_entry, prescient.trace_in, prescient.take_places, prescient.take_pace
to prescient_runner;

grant update on prescient.job to prescient_operator;
grant update (since, store, draining_since, draining_by, mover) on prescient.setting to prescient_operator;
grant insert, update, delete on prescient.store_out, prescient.store_in to prescient_operator;
grant insert, update on prescient.action to prescient_operator;
grant delete on prescient.slot_run to prescient_operator;
grant update, delete on prescient.future_job_history to prescient_operator;
grant insert, update, delete on prescient.event_consumer to prescient_operator;
grant insert, update on prescient.event_removed to prescient_operator;
grant delete on prescient.event_outbox to prescient_operator;
grant execute on function
    prescient.drop_history_months, prescient.set_width, prescient.retry_failed, prescient.prune_events, prescient.receive_rows, prescient.give_rows,
    prescient.settle_rows
to prescient_operator;
