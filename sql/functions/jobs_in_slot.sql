-- Returns the jobs that have rows in a slot, by jumping from job to job through the slot index. The
-- row estimate is declared: the server would expect a thousand rows, and find the caller worth
-- compiling, which takes a new session 20 ms.
create or replace function prescient.jobs_in_slot(at timestamptz)
returns setof bigint
language plpgsql
stable
rows 10
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    found_job bigint;
begin
    select f.job into found_job from prescient.future_job f where f.next_check_at = at order by f.job limit 1;
    while found_job is not null loop
        return next found_job;
        select f.job into found_job from prescient.future_job f where f.next_check_at = at and f.job > found_job order by f.job limit 1;
    end loop;
end
$$;
