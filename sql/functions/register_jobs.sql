-- Returns to a run the numbers of the jobs that it knows, and records that it knows them. slas are
-- in microseconds; null: none. With rules it also knows the rules that were applied. It leaves a
-- row that another session has locked, perhaps to pause the job, to a later run. It returns no number for a name
-- whose number another job has.
create or replace function prescient.register_jobs(names text[], slas bigint[], rules boolean)
returns table (name text, job bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    clock    timestamptz := clock_timestamp();
    patience text := current_setting('lock_timeout');
    wait     text := '100ms'; -- for the first transaction that holds a name
    new_name text;
begin
    if rules then
        names := names || array(select r.name from prescient.rule r where r.name <> all (register_jobs.names)); -- without slas
    end if;
    -- Without the advisory locks of ensure_job, because any login may hold them. A name whose row is not there soon is
    -- left to a later run: a transaction that writes it is still open. In the order of the names, so that two calls
    -- never deadlock.
    for new_name in
        select distinct u.name collate "C" as unknown
        from unnest(names) as u (name)
        where not exists (select from prescient.job j where j.name = u.name)
        order by unknown
    loop
        begin
            perform set_config('lock_timeout', wait, true);
            insert into prescient.job (job, name) values (prescient.job_number(new_name), new_name) on conflict do nothing;
        exception
            when lock_not_available then wait := '1ms';
        end;
    end loop;
    perform set_config('lock_timeout', patience, true);
    return query
    select g.name, g.number
    from (select u.name, prescient.find_job(u.name) as number from (select distinct n.name from unnest(names) as n (name)) as u) as g
    where g.number is not null;

    update prescient.job j
    set registered_at = clock,
        sla = stale.sla
    from (
        select o.job, prescient.microseconds(g.sla) as sla
        from prescient.job o
        join unnest(names, slas) as g (name, sla) on g.name = o.name
        where o.registered_at is null
            or o.registered_at < clock - interval '1 hour'
            or o.sla is distinct from prescient.microseconds(g.sla)
        for update of o skip locked
    ) as stale
    where j.job = stale.job;
end
$$;
