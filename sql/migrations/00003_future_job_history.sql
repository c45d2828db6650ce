-- What ended, and how. One partition a month, so that retention drops a table and deletes nothing.

-- +goose Up
-- How a row ended. A check of the table would do the same, but every statement that ends a row would read it anew from the catalog,
-- which is a tenth of what recording one costs.
create domain prescient.outcome as text
    constraint outcome_named check (value in ('done', 'cancelled', 'replaced', 'failed', 'max_checks', 'horizon', 'past', 'deadline', 'skipped'));

create table prescient.future_job_history (
    id             bigint            not null,
    job_exec       text              not null,
    entity_name    text              not null,
    entity_key     text              not null,
    item_key       text,
    group_key      text,
    first_check_at timestamptz       not null,
    slot           timestamptz       not null,
    check_count    integer           not null,
    error_count    integer           not null,
    last_error     text,
    spent          interval          not null,
    payload        jsonb,
    enqueued_at    timestamptz       not null,
    enqueued_by    text              not null,
    enqueued_app   text,
    enqueued_actor text,
    asked_for      timestamptz,
    trace          text,
    outcome        prescient.outcome not null,
    finished_at    timestamptz       not null default clock_timestamp(),
    lateness       interval,
    duration       interval,
    runner         text
)
partition by range (finished_at);

comment on column prescient.future_job_history.slot is 'the slot the row was in when it ended';
comment on column prescient.future_job_history.lateness is 'start of the last check minus its slot; null when none ran';
comment on column prescient.future_job_history.duration is 'run time of the last check; null when none ran';

-- history list, stats and prune: by time.
create index future_job_history_finished_at on prescient.future_job_history using brin (finished_at);

-- history show, jobs retry: the trace of an entity.
create index future_job_history_entity on prescient.future_job_history (entity_name, entity_key);

-- status: what gave up lately, which is little.
create index future_job_history_failed on prescient.future_job_history (finished_at) where outcome = 'failed';

-- Catches what no month was made for, so that ending a row never fails for want of a partition.
create table prescient.future_job_history_rest partition of prescient.future_job_history default;

-- Makes the partition of the month (UTC) that holds an instant, and moves there what the default partition
-- has of it. Returns its name, or null when it was there. It never waits for those who read history, since everybody
-- who ends a row would wait behind it: lock_not_available says to try another time.
-- +goose StatementBegin
create function prescient.make_history_month(at timestamptz)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO' -- others write bounds with the abbreviation of a zone, which may be read as that of another
as $$
declare
    month_start timestamptz := date_trunc('month', at at time zone 'UTC') at time zone 'UTC';
    month_end   timestamptz := (date_trunc('month', at at time zone 'UTC') + interval '1 month') at time zone 'UTC';
    month_name  text := 'future_job_history_' || to_char(at at time zone 'UTC', 'YYYYMM');
begin
    if to_regclass('prescient.' || month_name) is not null then
        return null;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('prescient.future_job_history', 0)) then
        return null; -- somebody else is making it
    end if;
    lock table only prescient.future_job_history in share update exclusive mode nowait;
    -- Whoever ends a row in a month that has begun has to wait for the table: one that had found the default partition for it, and
    -- waited for that, would be told that the row is none of its own any more.
    if month_start <= clock_timestamp() then
        lock table only prescient.future_job_history in access exclusive mode nowait;
    end if;
    lock table prescient.future_job_history_rest in access exclusive mode nowait;
    execute format('create table prescient.%I (like prescient.future_job_history including defaults including constraints)', month_name);
    execute format(
        'with moved as (delete from prescient.future_job_history_rest where finished_at >= %L and finished_at < %L returning *)'
        ' insert into prescient.%I select * from moved',
        month_start, month_end, month_name
    );
    execute format(
        'alter table prescient.future_job_history attach partition prescient.%I for values from (%L) to (%L)',
        month_name, month_start, month_end
    );
    return month_name;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.make_history_month from public;

-- This month and the next two; called by migrate and by every run, and nearly free when all are there.
-- +goose StatementBegin
create function prescient.make_history_months()
returns setof text
language sql
as $$
    select made
    from generate_series(0, 2) as ahead,
        prescient.make_history_month(
            (date_trunc('month', clock_timestamp() at time zone 'UTC') + ahead * interval '1 month') at time zone 'UTC'
        ) as made
    where made is not null
$$;
-- +goose StatementEnd

select prescient.make_history_months();

-- Drops the months (UTC) that ended before an instant, and what the default partition and table action have from before it.
-- Returns what was dropped, with the number of rows by the table statistics; with dry_run drops nothing.
-- It never waits, as make_history_month.
-- +goose StatementBegin
create function prescient.drop_history_months(before timestamptz, dry_run boolean default false)
returns table (partition text, rows bigint)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not dry_run then
        lock table only prescient.future_job_history in access exclusive mode nowait;
        -- To drop a month locks the default partition, too, whose bounds it changes.
        lock table prescient.future_job_history_rest in access exclusive mode nowait;
    end if;
    for partition, rows in
        select c.relname, greatest(c.reltuples, 0)::bigint
        from pg_catalog.pg_inherits i
        join pg_catalog.pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'prescient.future_job_history'::regclass
            and c.relname ~ '^future_job_history_[0-9]{6}$'
            and (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month') at time zone 'UTC' <= before
        order by c.relname
    loop
        if not dry_run then
            execute format('lock table prescient.%I in access exclusive mode nowait', partition);
            execute format('drop table prescient.%I', partition);
        end if;
        return next;
    end loop;
    partition := 'future_job_history_rest';
    if dry_run then
        select count(*) into rows from prescient.future_job_history_rest where finished_at < before;
    else
        delete from prescient.future_job_history_rest where finished_at < before;
        get diagnostics rows = row_count;
    end if;
    if rows > 0 then
        return next;
    end if;
    partition := 'action';
    if dry_run then
        select count(*) into rows from prescient.action where ended_at < before;
    else
        delete from prescient.action where ended_at < before;
        get diagnostics rows = row_count;
    end if;
    if rows > 0 then
        return next;
    end if;
end
$$;
-- +goose StatementEnd
revoke all on function prescient.drop_history_months from public;

update prescient.setting
set schema_version = 3;

-- +goose Down
update prescient.setting
set schema_version = 2;
drop table prescient.future_job_history;
drop domain prescient.outcome;
drop function prescient.drop_history_months(timestamptz, boolean);
drop function prescient.make_history_months();
drop function prescient.make_history_month(timestamptz);
