-- Counts the rows of a job in a slot up to 1,000, and estimates above. It divides the range of
-- their ids into 32 parts. In each part the position of the 32nd row, or the count of a smaller
-- part, tells how many rows the part has. So bursts are seen, and at most 2,100 entries of the
-- index are read.
create or replace function prescient.estimate_rows(at timestamptz, number bigint)
returns bigint
language plpgsql
stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    few     bigint;
    first   bigint;
    last    bigint;
    highest bigint;
    step    numeric;
    found   numeric := 0;
begin
    select count(*), min(id), max(id)
    into few, first, last
    from (select f.id from prescient.future_job f where f.next_check_at = at and f.job = number order by f.id limit 1001) as page;
    if few <= 1000 then
        return few;
    end if;
    select f.id into highest
    from prescient.future_job f
    where f.next_check_at = at and f.job = number
    order by f.id desc
    limit 1;
    step := greatest((highest - last) / 32.0, 1);
    for part in 0 .. least(32, highest - last)::integer - 1 loop
        select found + case
            when count(*) < 32 then count(*)
            else least(step, 32 * step / greatest(max(id) - floor(last + part * step), 32))
        end
        into found
        from (
            select f.id
            from prescient.future_job f
            where f.next_check_at = at and f.job = number
                and f.id > floor(last + part * step)::bigint and f.id <= floor(last + (part + 1) * step)::bigint
            order by f.id
            limit 32
        ) as page;
    end loop;
    return few + round(found);
end
$$;
