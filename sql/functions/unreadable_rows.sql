-- Finds the rows of a claim that cannot be read, with what the server says of each: a payload that
-- is too large as text, for example. It reads each row by itself.
-- Called by page_unreadable, after the server has refused to read the rows together.
create or replace function prescient.unreadable_rows(at timestamptz, numbers bigint[], first_id bigint, last_id bigint)
returns table (id bigint, job bigint, problem text)
language plpgsql
stable
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    due record;
begin
    for due in
        select f.id, f.job
        from prescient.future_job f
        where f.next_check_at = at
            and f.job = any (numbers)
            and f.id between first_id and last_id
        order by f.id
    loop
        begin
            perform octet_length(f::text)
            from prescient.future_job f
            where f.next_check_at = at and f.job = due.job and f.id = due.id;
        exception
            when others then
                id := due.id;
                job := due.job;
                problem := sqlerrm || ' (' || sqlstate || ')';
                return next;
        end;
    end loop;
end
$$;
