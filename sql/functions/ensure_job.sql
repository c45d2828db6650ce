-- Returns the number of a job, as find_job does, and gives a new name its row: for callers that
-- write rows. If another transaction is writing the same new name, the call does not wait for it. The
-- call uses the number, which follows from the name, and writes no row. If that transaction rolls
-- back, the next caller writes the row, or the first runner that knows the job.
-- A transaction keeps a lock for each new name until it ends. On a server whose settings give room
-- for 19,840 locks, 30,000 new names in one transaction worked, and 40,000 ran out of shared memory.
create or replace function prescient.ensure_job(job_exec text)
returns bigint
language plpgsql
as $$
declare
    number bigint;
    other  text;
begin
    select j.job into number from prescient.job j where j.name = job_exec;
    if found then
        return number;
    end if;
    number := prescient.job_number(job_exec);
    if pg_try_advisory_xact_lock(hashtextextended('prescient.job ' || job_exec, 0)) then
        insert into prescient.job (job, name) values (number, job_exec) on conflict do nothing;
    end if;
    -- After the insert, which may have waited for a transaction that gave another name this number.
    select j.name into other from prescient.job j where j.job = number;
    if other <> job_exec then
        raise exception 'jobs % and % have the same number', quote_literal(job_exec), quote_literal(other)
            using errcode = 'unique_violation', hint = 'Give one of them another name.';
    end if;
    return number;
end
$$;
