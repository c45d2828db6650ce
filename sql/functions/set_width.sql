-- Changes the distance between two slots and moves waiting rows onto the new grid, only upward, in
-- the caller's transaction. It is refused while a slot is open, and while rows are due: the ledger
-- starts again after the change, so their missed slot would be forgotten. Returns how many rows were
-- moved.
-- It waits for open transactions no longer than a runner waits for it, because every session waits
-- behind it, and longer than deadlock_timeout, after which autovacuum gives way.
create or replace function prescient.set_width(new_width interval, clock timestamptz default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set lock_timeout = '3s'
as $$
declare
    seconds numeric := extract(epoch from new_width);
    entry   text := prescient.journal_entry('width', timestamptz 'epoch');
    now     timestamptz;
    holder  record;
    due     record;
    word    text; -- the name of its job, as a shell reads it
    moved   bigint;
begin
    if seconds is null or seconds not between 1 and 86400 or seconds <> floor(seconds) or 86400 % seconds <> 0 then
        raise exception 'width is %; it must be a whole number of seconds that divides 24 hours, from 1 second to 24 hours', coalesce(new_width::text, 'null')
            using errcode = 'check_violation', constraint = 'setting_width', table = 'setting';
    end if;
    new_width := seconds::double precision * interval '1 second';
    -- Nothing changes, and a new ledger would forget missed slots.
    if exists (select from prescient.setting where width = new_width) then
        return 0;
    end if;
    call prescient.wait_for_locks(current_setting('lock_timeout')); -- where the tables are, too
    begin
        lock table prescient.future_job, prescient.slot_run in access exclusive mode;
    exception when lock_not_available then
        select a.pid, a.usename, a.application_name
        into holder
        from pg_locks l
        join pg_stat_activity a on a.pid = l.pid
        where l.relation in ('prescient.future_job'::regclass, 'prescient.slot_run'::regclass) and l.granted
            and a.datname = current_database() and a.pid <> pg_backend_pid()
        order by a.xact_start
        limit 1;
        raise exception 'a transaction is open that has read or written checks%',
            coalesce(': of session ' || holder.pid || ' of ' || holder.usename || coalesce(' (' || nullif(holder.application_name, '') || ')', ''), '')
            using errcode = 'lock_not_available', hint = 'All writers of checks would wait for this change. Try again when that transaction has ended'
                || coalesce('. To end it: select pg_terminate_backend(' || holder.pid || ')', '. To find it: prescient doctor');
    end;
    now := coalesce(clock, clock_timestamp());
    if exists (select from prescient.slot_run where state = 'open') then
        raise exception 'slot % is open', (select to_char(min(slot) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') from prescient.slot_run where state = 'open')
            using errcode = 'object_in_use', hint = 'Wait until its run has ended, or finish it with: prescient run --catch-up. If the slot stays open, its rows are of a job that the binary does not have: '
                'prescient status names the job. Run a binary that has it, or cancel the rows';
    end if;
    select
        f.next_check_at, coalesce(j.name, '#' || f.job) as name, j.paused_at is not null as paused,
        j.registered_at is null and not exists (select from prescient.rule r where r.name = j.name) as unknown
    into due
    from prescient.future_job f
    left join prescient.job j on j.job = f.job
    where f.next_check_at <= now
    order by f.next_check_at
    limit 1;
    if found then
        word := case
            when due.name ~ '^[A-Za-z0-9_./:@=,+-]+$' then due.name
            else '''' || replace(due.name, '''', '''' || chr(92) || '''''') || ''''
        end;
        raise exception 'checks of job % are due in slot %', due.name, to_char(due.next_check_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            using errcode = 'object_in_use',
                hint = case
                    when due.paused then format('The job is paused: end that first, with: prescient jobs resume %s, and run them with: prescient run --catch-up', word)
                    when due.unknown then format('No run has ever registered the job. Run them first, with: prescient run --catch-up, of a binary that has it; or cancel them, if the name is wrong: prescient jobs list --job %s', word)
                    else 'Run them first, with: prescient run --catch-up'
                end;
    end if;
    update prescient.setting
    set width = new_width,
        since = prescient.slot_floor(now, new_width) + new_width;
    alter table prescient.future_job drop constraint future_job_on_grid;
    update prescient.future_job
    -- slot_ceil from immutable parts: the sum is without a time zone.
    set next_check_at = prescient.slot_floor(
            (next_check_at at time zone 'UTC' + (new_width - interval '1 microsecond')) at time zone 'UTC', new_width
        ),
        journal = prescient.journal_add(journal, prescient.journal_in(entry, next_check_at))
    where next_check_at <> prescient.slot_floor(next_check_at, new_width);
    get diagnostics moved = row_count;
    execute format(
        'alter table prescient.future_job add constraint future_job_on_grid check ('
        'next_check_at = date_bin(interval %L, next_check_at, timestamptz ''1970-01-01 00:00:00+00''))',
        new_width
    );
    return moved;
end
$$;
revoke all on function prescient.set_width(interval, timestamptz) from public;
