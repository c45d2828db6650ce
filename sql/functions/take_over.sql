-- Takes over a claim whose lease has ended, under a new token: the same rows, of which those that
-- are recorded are gone. Of a claim of several jobs it takes those that the caller knows (numbers)
-- and that are not paused. The rest stays to be taken over, under a token of its own too: its old
-- runner may still be alive, and must not find the old one.
create or replace function prescient.take_over(
    at       timestamptz,
    run_kind text,
    own      bigint,
    who      text,
    lease    interval,
    numbers  bigint[],
    out jobs     bigint[],
    out first_id bigint,
    out last_id  bigint
)
language plpgsql
as $$
#variable_conflict use_column
declare
    stale   prescient.slot_claim;
    present bigint[];
    rest    bigint[];
begin
    perform prescient.lock_slot(at, false);
    if not exists (select from prescient.slot_run r where r.slot = at and r.state = 'open') then
        return;
    end if;
    update prescient.slot_claim c -- of a call whose reply was lost, see claim_rows
    set allocated_until = statement_timestamp() + lease
    where c.token = own
    returning c.jobs, c.first_id, c.last_id into take_over.jobs, take_over.first_id, take_over.last_id;
    if found then
        return;
    end if;
    present := array(
        select number
        from unnest(numbers) as number
        where not exists (select from prescient.job j where j.job = number and j.paused_at is not null)
    );
    select c.*
    into stale
    from prescient.slot_claim c
    where c.slot = at
        and c.allocated_until < statement_timestamp()
        and c.jobs && present
    order by c.token
    limit 1;
    if not found then
        return;
    end if;
    -- First, since they may hold a lock on the claim. Where they have not ended at once, another time will do.
    perform prescient.terminate_sessions(array[stale.token]);
    select c.*
    into stale
    from prescient.slot_claim c
    where c.token = stale.token and c.allocated_until < statement_timestamp()
    for update skip locked;
    if not found then
        return;
    end if;
    take_over.jobs := array(select number from unnest(stale.jobs) with ordinality as j (number, nth) where number = any (present) order by nth);
    rest := array(select number from unnest(stale.jobs) with ordinality as j (number, nth) where number <> all (present) order by nth);
    take_over.first_id := stale.first_id;
    take_over.last_id := stale.last_id;
    if rest <> '{}' then
        insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
        values (
            ('x' || left(md5(own::text || stale.token::text), 15))::bit(60)::bigint, at, stale.kind, rest, stale.first_id, stale.last_id,
            stale.runner, stale.allocated_until
        );
    end if;
    update prescient.slot_claim c
    set token = own,
        kind = run_kind,
        jobs = take_over.jobs,
        runner = who,
        allocated_until = statement_timestamp() + lease
    where c.token = stale.token;
    insert into prescient.slot_progress (slot, token, part, job, take_overs)
    values (at, own, 0, 0, (stale.allocated_until > timestamptz 'epoch')::integer);
end
$$;
