-- Returns to a run the numbers of the jobs that it knows, and records that it knows them. slas are
-- in microseconds; null: none. With rules it also knows the rules that were applied. It leaves a
-- row that another session has locked, perhaps to pause the job, to a later run.
create or replace function prescient.register_jobs(names text[], slas bigint[], rules boolean)
returns table (name text, job bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    clock    timestamptz := clock_timestamp();
    patience text;
begin
    if rules then
        names := names || array(select r.name from prescient.rule r where r.name <> all (register_jobs.names)); -- without slas
    end if;
    -- In the order of the names, so that two calls never deadlock.
    return query
    select g.name, prescient.ensure_job(g.name)
    from (select u.name from unnest(names) as u (name) group by u.name order by u.name collate "C") as g;

    -- Any login may hold the advisory locks for which ensure_job does not wait. So runs write a name without them. They
    -- leave it to a later run only if a transaction that writes the name is still open.
    if exists (select from unnest(names) as u (name) where not exists (select from prescient.job j where j.name = u.name)) then
        patience := current_setting('lock_timeout');
        begin
            perform set_config('lock_timeout', '100ms', true);
            insert into prescient.job (job, name)
            select hashtextextended(u.name, 0), u.name
            from (select distinct n.name from unnest(names) as n (name)) as u
            order by u.name collate "C"
            on conflict do nothing;
        exception
            when lock_not_available then null;
        end;
        perform set_config('lock_timeout', patience, true);
    end if;

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
