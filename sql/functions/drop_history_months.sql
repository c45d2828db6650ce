-- Drops the months (UTC) that ended before an instant, and the rows of the default partition and of
-- table action from before it. Returns what was dropped, with the number of rows by the table
-- statistics. With dry_run it drops nothing.
-- It never waits for a lock; see make_history_month.
create or replace function prescient.drop_history_months(before timestamptz, dry_run boolean default false)
returns table (partition text, rows bigint)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
begin
    if not dry_run then
        lock table only prescient.future_job_history in access exclusive mode nowait;
        -- Dropping a month also locks the default partition, whose bounds it changes.
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
        select count(*) into rows from prescient.action where coalesce(finished_at, seen_at) < before;
    else
        delete from prescient.action where coalesce(finished_at, seen_at) < before;
        get diagnostics rows = row_count;
    end if;
    if rows > 0 then
        return next;
    end if;
end
$$;
revoke all on function prescient.drop_history_months(timestamptz, boolean) from public;
