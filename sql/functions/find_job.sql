-- Returns the number of a job: that of its row, or else the number that the row will get. Null: another
-- job has that number. A query that compares rows with it puts it into a subquery, so that it is found once. A function in
-- SQL that is not inlined is parsed again in each transaction, for six times the cost of this one.
create or replace function prescient.find_job(job_exec text)
returns bigint
language plpgsql
stable
as $$
begin
    return coalesce(
        (select j.job from prescient.job j where j.name = job_exec),
        (
            select n.number
            from (select prescient.job_number(job_exec) as number) as n
            where not exists (select from prescient.job o where o.job = n.number)
        )
    );
end
$$;
