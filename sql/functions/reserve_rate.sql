-- Gives a run the next instants at which so many checks may begin, one every spacing. Returns how
-- far ahead the first is; it may be in the past. With one new key of a hundred it forgets keys that
-- no run has asked for in an hour: those in about a hundred pages of the table, which are some
-- 2,000 keys, however many there are.
-- A run takes a few instants at a time, so an instant more than ten minutes ahead comes from a
-- clock that was set back.
create or replace function prescient.reserve_rate(number bigint, of_key text, checks integer, spacing interval)
returns interval
language plpgsql
as $$
declare
    taken     interval := checks * spacing;
    next_free timestamptz;
    is_new    boolean;
    percent   real; -- of the table, to look for keys to forget
begin
    -- A server that crashes loses only instants that have passed.
    perform set_config('synchronous_commit', 'off', true);
    insert into prescient.job_rate as p (job, key, free_at)
    values (number, of_key, statement_timestamp() + taken)
    on conflict (job, key) do update
    -- A sum without a time zone is immutable.
    set free_at = greatest(
        (least(p.free_at at time zone 'UTC', excluded.free_at at time zone 'UTC' - taken + interval '10 minutes') + taken) at time zone 'UTC',
        excluded.free_at
    )
    returning p.free_at, p.xmax = 0 into next_free, is_new;
    if is_new and random() < 0.01 then
        percent := least(100, 100 * 100 / greatest(pg_relation_size('prescient.job_rate') / 8192.0, 1));
        delete from prescient.job_rate p
        where p.ctid = any (array(
            select o.ctid
            from prescient.job_rate o tablesample system (percent)
            where o.job = number and o.free_at < statement_timestamp() - interval '1 hour'
            for update skip locked
        ));
    end if;
    return next_free - taken - clock_timestamp();
end
$$;
