-- Takes over a claim whose lease has ended, under a new token: the same rows, of which those that are recorded are gone.
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
    stale bigint;
    died  boolean;
begin
    perform prescient.lock_slot(at, false);
    if not exists (select from prescient.slot_run r where r.slot = at and r.state = 'open') then
        return;
    end if;
    select c.jobs, c.first_id, c.last_id into take_over.jobs, take_over.first_id, take_over.last_id
    from prescient.slot_claim c
    where c.token = own;
    if found then
        return;
    end if;
    select c.token, c.allocated_until > timestamptz 'epoch', c.jobs, c.first_id, c.last_id
    into stale, died, take_over.jobs, take_over.first_id, take_over.last_id
    from prescient.slot_claim c
    where c.slot = at
        and c.allocated_until < statement_timestamp()
        and c.jobs <> '{}'
        and c.jobs <@ numbers
        and not exists (select from prescient.job j where j.job = any (c.jobs) and j.paused_at is not null)
    order by c.token
    limit 1;
    if stale is null then
        return;
    end if;
    -- First, since they may hold a lock on the claim. Where they have not ended at once, another time will do.
    perform prescient.end_sessions(array[stale]);
    perform
    from prescient.slot_claim c
    where c.token = stale and c.allocated_until < statement_timestamp()
    for update skip locked;
    if not found then
        take_over.jobs := null;
        return;
    end if;
    update prescient.slot_claim c
    set token = own,
        kind = run_kind,
        runner = who,
        allocated_until = statement_timestamp() + lease
    where c.token = stale;
    insert into prescient.slot_tally (slot, token, part, job, take_overs) values (at, own, 0, 0, died::integer);
end
$$;
