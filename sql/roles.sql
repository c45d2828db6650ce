-- Six roles without a login, each with the least privileges. Grant them to logins: grant prescient_app to shop;
--
--   owner     owns the tables and functions, and may migrate
--   app       may call the functions that enqueue, cancel and move checks; it has no right on any table
--   reader    may read everything
--   runner    runs slots, catches up, publishes and acknowledges events, changes schedules and prunes; it is also an app
--             and a reader
--   rules     owns the functions of the triggers of rules, in a schema of their own, and may let rows of rules wait and
--             cancel them
--   operator  pauses, retries, acknowledges rows that gave up, applies rules, changes the width and moves rows to other
--             stores; it is also a runner, and a member of rules
--
-- The script is idempotent. It needs CREATEROLE if a role is missing, and must run as a member of the owner, or as the
-- creator of the schema who may create in the database. Roles belong to the whole server.

select pg_advisory_xact_lock(hashtextextended('prescient.roles', 0));

-- Sessions wait behind a lock of a table that the script waits for. If it ends with a lock timeout, nothing has changed:
-- repeat it.
{briefly};

do $$
declare
    part text;
begin
    foreach part in array array['owner', 'app', 'reader', 'runner', 'rules', 'operator'] loop
        if to_regrole('prescient_' || part) is null then
            -- A session in another database of the server, where the lock above does not hold, may be creating it.
            begin
                execute format('create role %I nologin', 'prescient_' || part);
            exception
                when unique_violation or duplicate_object then
                    null;
            end;
        end if;
    end loop;
    -- Only a member of the owner may transfer ownership to it.
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
    -- An apply creates functions, and gives them to the role.
    if not pg_has_role('prescient_operator', 'prescient_rules', 'member') then
        grant prescient_rules to prescient_operator;
    end if;
    if not pg_has_role('prescient_owner', 'prescient_rules', 'member') then
        grant prescient_rules to prescient_owner;
    end if;
end
$$;

-- The functions of the triggers of rules call one of each other by its name, with the rights of their owner. So
-- nobody else may use the schema in which they are, or have made something there before. Without roles, it was made
-- by the owner of the schema of the tables, the caller or a superuser.
do $$
declare
    trusted oid[] := array(
        select r.oid
        from pg_roles r
        where r.rolsuper
            or r.rolname = current_user
            or pg_has_role(r.oid, 'prescient_rules', 'member')
            or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'prescient')
    );
    other   name;
    command text;
begin
    if to_regnamespace('prescient_rules') is null then
        create schema prescient_rules authorization prescient_rules;
    end if;
    select pg_get_userbyid(o.owner) into other
    from (
        select n.nspowner from pg_namespace n where n.nspname = 'prescient_rules'
        union all
        select p.proowner from pg_proc p where p.pronamespace = 'prescient_rules'::regnamespace
        union all
        select y.typowner from pg_type y where y.typnamespace = 'prescient_rules'::regnamespace
    ) as o (owner)
    where not o.owner = any (trusted)
    limit 1;
    if found then
        raise exception
            'schema prescient_rules belongs to role %, or has functions of it, which could change what rules do', other
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Let its owner or a superuser drop it: drop schema prescient_rules cascade. '
                    'Then make the roles, and apply the rules again.';
    end if;
    for command in
        select format(
            'revoke all on schema prescient_rules from %s',
            case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        )
        from pg_namespace n
        cross join aclexplode(n.nspacl) as a
        where n.nspname = 'prescient_rules' and a.grantee <> n.nspowner
        union all
        select 'alter schema prescient_rules owner to prescient_rules'
        from pg_namespace n
        where n.nspname = 'prescient_rules' and n.nspowner <> 'prescient_rules'::regrole
        union all
        -- Without its parameters: their types may be of a schema that the caller may not use.
        select format('alter routine prescient_rules.%I owner to prescient_rules', p.proname)
        from pg_proc p
        where p.pronamespace = 'prescient_rules'::regnamespace and p.proowner <> 'prescient_rules'::regrole
        union all
        select format('alter type prescient_rules.%I owner to prescient_rules', y.typname)
        from pg_type y
        where y.typnamespace = 'prescient_rules'::regnamespace
            and y.typtype = 'c'
            and y.typowner <> 'prescient_rules'::regrole
    loop
        execute command;
    end loop;
end
$$;

-- Ownership and grants concern only prescient's own objects, because an application may have objects in
-- the same schema.
-- {tables}, {types} and {routines} are the lists of sql/objects.go. Months of history belong to their table.
do $$
declare
    own_tables   oid[]          := array(
        select r::oid from unnest(array[{tables}]::regclass[]) as r
        union all
        select inhrelid from pg_inherits where inhparent = 'prescient.future_job_history'::regclass
    );
    own_types    regtype[]      := array[{types}];
    own_routines regprocedure[] := array[{routines}];
    everybody    text           := 'public, prescient_app, prescient_reader, prescient_runner, prescient_rules, '
        'prescient_operator';
    shared       boolean;
    losing       text;
    command      text;
begin
    select string_agg(distinct quote_ident(r.rolname), ', ') into losing
    from pg_class c
    join pg_roles r on r.oid = c.relowner
    where c.oid = any (own_tables) and not r.rolsuper and not pg_has_role(r.oid, 'prescient_owner', 'usage');
    if losing is not null then
        raise warning 'the tables of schema prescient no longer belong to %: its runs and commands fail', losing
            using hint = format('Grant it what it needs: grant prescient_runner to %s; or the owner, if it migrates.', losing);
    end if;
    shared := 'prescient' = 'public'
        or exists (
            select from pg_class c
            where c.relnamespace = 'prescient'::regnamespace
                and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
                and not c.oid = any (own_tables)
                -- A sequence of an identity column belongs to its table.
                and not exists (
                    select from pg_depend d
                    where d.objid = c.oid and d.refobjid = any (own_tables) and d.deptype in ('i', 'a')
                )
        )
        or exists (
            select from pg_proc p
            where p.pronamespace = 'prescient'::regnamespace and not p.oid = any (own_routines)
        )
        or exists (
            select from pg_type y left join pg_class c on c.oid = y.typrelid
            where y.typnamespace = 'prescient'::regnamespace
                and (y.typtype in ('d', 'e', 'r') or y.typtype = 'c' and c.relkind = 'c')
                and not y.oid = any (own_types)
        );
    if shared then
        -- The schema keeps its owner. New months and migrations create tables in it.
        grant usage, create on schema prescient to prescient_owner;
    end if;
    for command in
        select 'alter schema prescient owner to prescient_owner'
        from pg_namespace n
        where n.nspname = 'prescient' and not shared and n.nspowner <> 'prescient_owner'::regrole
        union all
        select format('alter table %s owner to prescient_owner', c.oid::regclass)
        from pg_class c
        where c.oid = any (own_tables) and c.relowner <> 'prescient_owner'::regrole
        union all
        select format('alter type %s owner to prescient_owner', y.oid::regtype)
        from pg_type y
        where y.oid = any (own_types) and y.typowner <> 'prescient_owner'::regrole
        union all
        select format('alter routine %s owner to prescient_owner', p.oid::regprocedure)
        from pg_proc p
        where p.oid = any (own_routines) and p.proowner <> 'prescient_owner'::regrole
        union all
        select format('revoke all on routine %s from %s', r, everybody) from unnest(own_routines) as r
        union all
        select format('revoke all on table %s from %s', r::regclass, everybody) from unnest(own_tables) as r
        union all
        select format('grant select on table %s to prescient_reader', r::regclass)
        from unnest(own_tables) as r
        where r <> 'prescient.job_secret'::regclass
        union all
        select format('grant execute on routine %s to %s', p.oid::regprocedure, g.role)
        from (values
            ('prescient_app', array[
                'settings', 'slot_floor', 'slot_ceil', 'enqueue', 'enqueue_many', 'cancel', 'cancel_entity',
                'reschedule', 'push_back', 'lock_group', 'store'
            ]),
            ('prescient_rules', array['rule_look', 'rule_mark', 'rule_rename', 'rule_resume', 'rule_wait', 'rule_wait_many', 'cancel_keys']),
            ('prescient_reader', array[
                'settings', 'slot_floor', 'slot_ceil', 'find_job', 'job_number', 'jobs_in_slot', 'estimate_rows', 'why',
                'journal_check', 'journal_value', 'journal_abroad', 'oldest_active_xid', 'read_events',
                'newest_events', 'refuse_routine', 'store', 'force_slot_index', 'slot_took', 'of_schedule',
                'gets_event'
            ]),
            ('prescient_runner', array[
                'wait_for_locks', 'ensure_job', 'due_slot', 'lock_slot', 'scan_slot', 'slot_is_claimable',
                'terminate_sessions', 'open_slot', 'claim_rows', 'take_over', 'fence', 'close_slot', 'begin_check',
                'same_check', 'record_row', 'move_rows', 'move_rows_alike', 'honour', 'honour_moved',
                'finish_rows_apart', 'end_row', 'checks_after', 'errors_after', 'microseconds',
                'make_history_month', 'make_history_months', 'register_jobs', 'lateness_bucket', 'journal_add',
                'journal_entry', 'journal_in', 'acquire_permits', 'reserve_rate', 'require_recorded',
                'raise_suppressed', 'unreadable_rows', 'lock_rule', 'prune_ledger', 'drop_history_months', 'prune_events',
                'set_schedule', 'pause_schedule', 'drop_schedule', 'wait_for_schedule', 'schedule_pauser', 'schedule_mistake', 'refusing_login'
            ]),
            ('prescient_operator', array[
                'set_width', 'retry_failed', 'receive_rows', 'give_rows',
                'settle_rows', 'record_action', 'renew_action', 'end_action', 'record_request', 'retime'
            ])
        ) as g (role, names)
        join pg_proc p on p.proname = any (g.names) and p.oid = any (own_routines)
    loop
        execute command;
    end loop;
end
$$;

grant usage on schema prescient to prescient_app, prescient_reader, prescient_rules;

grant insert on prescient.job, prescient.future_job_history, prescient.event_outbox
to prescient_runner;
grant insert, update on prescient.rule_fired to prescient_runner;
grant insert, update, delete
on prescient.future_job, prescient.slot_job, prescient.slot_claim, prescient.slot_progress, prescient.slot_lateness,
    prescient.job_permit, prescient.job_rate, prescient.event_dead, prescient.event_sent, prescient.alert, prescient.schedule_state
to prescient_runner;
-- Not sql and role: the login of the runs executes the statement.
grant delete,
    insert (
        id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused, starts_at, ends_at, max_runs, exclude, deadline_from,
        job_exec, notify, text, paused_at, paused_by
    ),
    update (
        crontab, timezone, payload, deadline, spread, misfire, anchor, paused, version, updated_at, starts_at, ends_at, max_runs, exclude,
        deadline_from, job_exec, notify, text, paused_at, paused_by
    )
on prescient.schedule to prescient_runner;
grant insert, update on prescient.slot_run, prescient.event_consumer, prescient.alert_look, prescient.event_watermark
to prescient_runner;
grant delete on prescient.event_outbox to prescient_runner;
grant update (registered_at, sla, told_on) on prescient.job to prescient_runner;

grant update on prescient.job to prescient_operator;
grant insert, update on prescient.schedule to prescient_operator;
grant update (since, store, draining_since, draining_by, mover) on prescient.setting to prescient_operator;
grant insert, update, delete on prescient.transfer_out, prescient.transfer_in to prescient_operator;
grant delete on prescient.slot_run to prescient_operator;
grant update, delete on prescient.future_job_history to prescient_operator;
grant delete on prescient.event_consumer to prescient_operator;
grant insert, update, delete on prescient.rule to prescient_operator;
grant delete on prescient.rule_fired, prescient.rule_changed to prescient_runner;
