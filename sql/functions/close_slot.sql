-- Closes a slot if no rows are left to claim or to record, except rows of paused jobs.
-- state: 'done'; 'busy' (a runner has a claim); 'left' (a job has rows to claim); 'again' (as left,
-- but the rows came behind a cursor, by a transaction from before the slot was opened). rescan: search
-- for such rows also if the slot is settled. own: the claim whose last rows are recorded in the same
-- transaction.
create or replace function prescient.close_slot(at timestamptz, rescan boolean default false, own bigint default null, out state text)
language plpgsql
as $$
declare
    run prescient.slot_run;
    now timestamptz;
begin
    perform prescient.lock_slot(at, true);
    now := clock_timestamp();
    select * into run from prescient.slot_run r where r.slot = at;
    if not found or run.state = 'done' then
        state := 'done';
        return;
    end if;
    if exists (
        select
        from prescient.slot_claim c
        where c.slot = at
            and c.jobs <> '{}'
            and not (
                c.allocated_until < statement_timestamp()
                and exists (select from prescient.job j where j.job = any (c.jobs) and j.paused_at is not null)
            )
    ) then
        state := 'busy';
        return;
    end if;
    -- The claims of dead runners on jobs that were paused meanwhile are released. Their rows are behind the cursors.
    delete from prescient.slot_claim c where c.slot = at and c.jobs <> '{}';
    if found then
        perform prescient.scan_slot(at);
    end if;
    if prescient.slot_is_claimable(at) then
        state := 'left';
        return;
    end if;
    if rescan or not run.settled then
        run.settled := run.settled or prescient.oldest_active_xid() >= run.horizon;
        perform prescient.scan_slot(at); -- a statement after the one that asked for the snapshot
        if prescient.slot_is_claimable(at) then
            update prescient.slot_run r set settled = run.settled where r.slot = at;
            state := 'again';
            return;
        end if;
    end if;

    delete from prescient.slot_claim c where c.slot = at;
    -- The tallies are final: recording needs a claim.
    update prescient.slot_job s
    set finished = s.finished + n.finished,
        rescheduled = s.rescheduled + n.rescheduled,
        failed = s.failed + n.failed,
        spent = s.spent + n.spent,
        late = s.late + n.late,
        error = coalesce(n.error, s.error),
        first_at = least(s.first_at, n.first_at),
        last_at = greatest(s.last_at, n.last_at)
    from (
        select
            t.job, sum(t.finished) as finished, sum(t.rescheduled) as rescheduled, sum(t.failed) as failed, sum(t.spent) as spent,
            sum(t.late) as late, min(t.error) as error, min(t.recorded_at) as first_at, max(t.recorded_at) as last_at
        from prescient.slot_progress t
        where t.slot = at
        group by t.job
    ) as n
    where s.slot = at and s.job = n.job;
    insert into prescient.slot_lateness as s (slot, job, bucket, checks)
    select t.slot, t.job, t.bucket, sum(t.finished + t.rescheduled + t.failed)
    from prescient.slot_progress t
    where t.slot = at and t.bucket >= 0
    group by t.slot, t.job, t.bucket
    on conflict (slot, job, bucket) do update
    set checks = s.checks + excluded.checks;
    update prescient.slot_run r
    set state = 'done',
        closed_by = own,
        finished_at = now,
        checked = r.checked + n.finished + n.rescheduled + n.failed,
        finished = r.finished + n.finished,
        rescheduled = r.rescheduled + n.rescheduled,
        failed = r.failed + n.failed,
        take_overs = r.take_overs + n.take_overs
    from (
        select
            coalesce(sum(t.finished), 0) as finished, coalesce(sum(t.rescheduled), 0) as rescheduled,
            coalesce(sum(t.failed), 0) as failed, coalesce(sum(t.take_overs), 0) as take_overs
        from prescient.slot_progress t
        where t.slot = at
    ) as n
    where r.slot = at;
    delete from prescient.slot_progress t where t.slot = at;
    state := 'done';
end
$$;
