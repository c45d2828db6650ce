-- Claims rows of a slot: the next page of one job, or all rows of several jobs that fit into one
-- page. rest: those of the given jobs that still have rows to claim.
-- The token names the claim. A call that is repeated with the same token returns the same claim, and renews its lease:
-- the caller counts it from the last call.
create or replace function prescient.claim_rows(
    at       timestamptz,
    run_kind text,
    own      bigint,
    who      text,
    lease    interval,
    numbers  bigint[],
    page     bigint,
    out jobs     bigint[],
    out first_id bigint,
    out last_id  bigint,
    out rows     bigint,
    out rest     bigint[]
)
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    due   record;
    count bigint;
    low   bigint;
    high  bigint;
    more  boolean;
begin
    rows := 0;
    perform prescient.lock_slot(at, false);
    if not exists (select from prescient.slot_run r where r.slot = at and r.state = 'open') then
        return;
    end if;
    perform from prescient.slot_job s where s.slot = at and s.job = any (numbers) and not s.drained order by s.job for update;
    update prescient.slot_claim c
    set allocated_until = statement_timestamp() + lease
    where c.token = own
    returning c.jobs, c.first_id, c.last_id into jobs, first_id, last_id;
    if not found then
        for due in
            select s.job, s.cursor
            from prescient.slot_job s
            left join prescient.job j on j.job = s.job
            where s.slot = at and s.job = any (numbers) and not s.drained and j.paused_at is null
            order by array_position(numbers, s.job)
        loop
            -- The ids of a claim of several jobs are one range, so no other claim may lie in it.
            exit when rows > 0 and due.cursor > 0;
            select count(*), min(id), max(id)
            into count, low, high
            from (
                select f.id
                from prescient.future_job f
                where f.next_check_at = at and f.job = due.job and f.id > due.cursor
                order by f.id
                limit page - rows
            ) as due_rows;
            more := count = page - rows and exists (
                select
                from prescient.future_job f
                where f.next_check_at = at and f.job = due.job and f.id > high
            );
            exit when rows > 0 and more;
            update prescient.slot_job s
            set cursor = coalesce(high, s.cursor),
                drained = not more
            where s.slot = at and s.job = due.job;
            if count > 0 then
                jobs := jobs || due.job;
                first_id := least(first_id, low);
                last_id := greatest(last_id, high);
                rows := rows + count;
            end if;
            exit when rows >= page or rows > 0 and due.cursor > 0;
        end loop;
        if rows > 0 then
            insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
            values (own, at, run_kind, claim_rows.jobs, claim_rows.first_id, claim_rows.last_id, who, statement_timestamp() + lease);
        end if;
    end if;
    select array_agg(s.job)
    into rest
    from prescient.slot_job s
    left join prescient.job j on j.job = s.job
    where s.slot = at and s.job = any (numbers) and not s.drained and j.paused_at is null;
end
$$;
