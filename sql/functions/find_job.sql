-- Returns the number of a job: that of its row, or else the number that the row will get.
create or replace function prescient.find_job(job_exec text)
returns bigint
language sql
stable
as $$
    select coalesce((select j.job from prescient.job j where j.name = job_exec), hashtextextended(job_exec, 0))
$$;
