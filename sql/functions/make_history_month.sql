-- Makes the partition of the month (UTC) that holds an instant, and moves the month's rows there from the default
-- partition. Returns its name, or null if the partition exists or another session is making one. A relation of that
-- name that is no partition of history is left alone: the function warns and returns null. It never waits for sessions
-- that read history, since every session that ends a row would wait behind it: lock_not_available says to try again
-- later.
create or replace function prescient.make_history_month(at timestamptz)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set datestyle = 'ISO' -- others write bounds with the abbreviation of a zone, which may be read as that of another
as $$
declare
    month_start timestamptz := date_trunc('month', at at time zone 'UTC') at time zone 'UTC';
    month_end   timestamptz := (date_trunc('month', at at time zone 'UTC') + interval '1 month') at time zone 'UTC';
    month_name  text := 'future_job_history_' || to_char(at at time zone 'UTC', 'YYYYMM');
begin
    if exists (
        select
        from pg_inherits i
        where i.inhparent = 'prescient.future_job_history'::regclass and i.inhrelid = to_regclass('prescient.' || month_name)
    ) then
        return null;
    end if;
    if to_regclass('prescient.' || month_name) is not null then
        raise warning '% is no partition of future_job_history, which needs the name', to_regclass('prescient.' || month_name)
            using hint = 'Give it another name; rows of the month go to the default partition meanwhile.';
        return null;
    end if;
    -- A table lock, because a login without any rights could hold an advisory lock.
    begin
        lock table only prescient.future_job_history in share update exclusive mode nowait;
    exception
        when lock_not_available then
            return null; -- another session is making one
    end;
    if to_regclass('prescient.' || month_name) is not null then
        return null; -- it was made meanwhile
    end if;
    -- A session that ends a row in a month that has begun has to wait for the parent table. If it
    -- had chosen the default partition and waited for that, it would fail because the row no longer
    -- belongs there.
    if month_start <= clock_timestamp() then
        lock table only prescient.future_job_history in access exclusive mode nowait;
    end if;
    lock table prescient.future_job_history_rest in access exclusive mode nowait;
    execute format('create table prescient.%I (like prescient.future_job_history including defaults including constraints)', month_name);
    -- Some servers switch row security on for new tables. The partitions have none of their own.
    execute format('alter table prescient.%I replica identity full, disable row level security, no force row level security', month_name);
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
revoke all on function prescient.make_history_month(timestamptz) from public;
