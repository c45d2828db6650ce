-- Gives a run permits: of each key as many as it wants, or as are left. A key without permits does
-- not come back. The run keeps what it has, so it may ask again, also for more. It keeps that even if
-- other runs have more than its limit: those of a binary with a larger limit.
create or replace function prescient.acquire_permits(number bigint, keys text[], wanted integer[], most integer, own bigint, lease interval)
returns table (key text, permits integer)
language plpgsql
as $$
#variable_conflict use_column
declare
    allowed integer[];
begin
    -- A statement after the lock counts the permits of other runs, so the count is current.
    perform pg_advisory_xact_lock(hashtextextended('prescient.permits ' || number, 0));
    -- Of any key: no run may ever ask again for the key of a run that has died.
    delete from prescient.job_permit p
    where p.job = number and p.token <> own and p.allocated_until < statement_timestamp();
    allowed := array(
        select (
            select greatest(
                most - coalesce(sum(p.permits) filter (where p.token <> own), 0),
                sum(p.permits) filter (where p.token = own)
            )
            from prescient.job_permit p
            where p.job = number and p.key = w.key
        )::integer
        from unnest(keys) with ordinality as w (key, nth)
        order by w.nth
    );
    return query
    insert into prescient.job_permit as p (job, key, token, permits, allocated_until)
    select number, w.key, own, least(w.wanted, w.allowed), statement_timestamp() + lease
    from unnest(keys, wanted, allowed) as w (key, wanted, allowed)
    where w.allowed > 0
    on conflict (job, key, token) do update
    set permits = greatest(p.permits, excluded.permits),
        allocated_until = excluded.allocated_until
    returning p.key, p.permits;
end
$$;
