-- Lets a runner into a slot for as long as the claim with its token lasts, and opens the slot if
-- the runner is the first. It may be repeated with the same token.
-- state: 'early' (the slot has not begun, by ahead, or is not on the grid), 'done', 'busy' (a
-- catch-up found runners at it), or 'open'. A catch-up opens a finished slot again for its rows
-- that are not paused. settled: no transaction can bring rows into the slot any more; until then
-- the first claim looks for jobs again.
-- taken: claims of dead runners, whose rows can be claimed again. able: how many checks the runner
-- does concurrently. nth: the position of the runner in the names of the slot; runners after the
-- first hundred share the last one. by_hand: an operator has a check of the slot run. The slot then is of
-- the kind by_hand until its run, or catch-up, opens it. A slot that was run keeps its kind when catch-up
-- opens it again: its other rows were checked in time. kind is that of the slot afterwards.
-- left_before: a runner has left the slot or died in it, and may have called functions without a record.
create or replace function prescient.open_slot(
    at       timestamptz,
    run_kind text,
    own      bigint,
    who      text,
    lease    interval,
    clock    timestamptz default null,
    able     integer default 0,
    by_hand  boolean default false,
    out state   text,
    out planned bigint,
    out settled boolean,
    out ahead   interval,
    out taken   bigint,
    out nth   integer,
    out kind  text,
    out left_before boolean
)
language plpgsql
as $$
declare
    run    prescient.slot_run;
    now    timestamptz;
    first  boolean; -- no run has opened the slot before
    fresh  boolean; -- claims begin at the first row
    stale  bigint[];
    waits  bigint;
    most   constant integer := 100; -- names to keep
    entered boolean; -- the runner is new at the slot
begin
    perform prescient.lock_slot(at, true);
    now := clock_timestamp();
    ahead := at - coalesce(clock, now);
    if ahead > interval '0' or exists (select from prescient.setting s where prescient.slot_floor(at, s.width) <> at) then
        state := 'early';
        return;
    end if;
    -- The number is taken after the slot has begun: no transaction with a higher number can choose the slot.
    insert into prescient.slot_run (slot, state, kind, planned, horizon, settled, runners, workers)
    values (at, 'open', case when by_hand then 'by_hand' else run_kind end, 0, pg_current_xact_id(), false, 1, able)
    on conflict (slot) do nothing
    returning * into run;
    first := found;
    fresh := first;
    if not first then
        select * into run from prescient.slot_run r where r.slot = at;
    else -- the ledger may have forgotten the slot, but not a claim that was handed back
        perform prescient.terminate_sessions(array(select c.token from prescient.slot_claim c where c.slot = at));
        delete from prescient.slot_claim c where c.slot = at;
        delete from prescient.slot_progress t where t.slot = at;
    end if;
    if run.kind = 'by_hand' and run_kind = 'run' then
        update prescient.slot_run r set kind = 'run', run_at = now where r.slot = at;
        run.kind := 'run';
    end if;
    planned := run.planned;
    settled := run.settled;
    if run.state = 'done' then
        if run_kind = 'run' or not exists (
            select
            from prescient.jobs_in_slot(at) as number
            left join prescient.job j on j.job = number
            where j.paused_at is null
        ) then
            state := 'done';
            return;
        end if;
        run.horizon := pg_current_xact_id();
        -- It was closed without the rows of these jobs, because they were paused.
        update prescient.slot_job s set missed = true where s.slot = at and not s.drained;
    end if;
    if not first and run_kind = 'catch_up' and exists (
        select
        from prescient.slot_claim c
        where c.slot = at and c.kind = 'run' and c.allocated_until >= statement_timestamp()
    ) then
        state := 'busy';
        return;
    end if;

    if not first and not exists (select from prescient.slot_claim c where c.slot = at and c.allocated_until >= statement_timestamp()) then
        fresh := true;
        select array_agg(c.token), count(*) filter (where c.allocated_until > timestamptz 'epoch')
        into stale, taken
        from prescient.slot_claim c
        where c.slot = at and c.jobs <> '{}';
        -- First, because these sessions may hold locks on their claims.
        perform prescient.terminate_sessions(stale);
        delete from prescient.slot_claim c where c.slot = at;
        if stale is not null then
            insert into prescient.slot_progress (slot, token, part, job, take_overs) values (at, own, 0, 0, taken);
        end if;
        update prescient.slot_job s
        set missed = true
        from prescient.job j
        where s.slot = at and not s.drained and not s.missed and j.job = s.job and j.paused_at is not null;
        -- Since its last outcome the slot has waited: for a binary with the job, or after a kill.
        update prescient.slot_run r
        set worked = r.worked + greatest(interval '0', greatest(
                (select max(t.recorded_at) from prescient.slot_progress t where t.slot = at and t.job <> 0),
                (select max(s.last_at) from prescient.slot_job s where s.slot = at)
            ) - coalesce(r.resumed_at, r.opened_at)),
            resumed_at = now
        where r.slot = at;
        run.resumed_at := now;
    end if;
    if fresh or not run.settled and not exists (select from prescient.slot_job s where s.slot = at and s.cursor > 0) then
        settled := prescient.oldest_active_xid() >= run.horizon;
        waits := prescient.scan_slot(at); -- a statement after the one that asked for the snapshot
        if first and settled and waits = 0 then
            update prescient.slot_run r set state = 'done', settled = true, finished_at = now, names = array[who] where r.slot = at;
            state := 'done';
            return;
        end if;
        planned := case run.state when 'done' then run.planned + waits else greatest(run.planned, waits) end;
        update prescient.slot_run r
        set state = 'open',
            finished_at = null,
            horizon = run.horizon,
            settled = open_slot.settled,
            planned = open_slot.planned
        where r.slot = at;
    end if;
    if not prescient.slot_is_claimable(at) and not exists (select from prescient.slot_claim c where c.slot = at) then
        state := prescient.close_slot(at);
        if state = 'done' then
            return;
        end if;
    end if;
    -- Here, and not at the opening: the slot may be an old one that the ledger has forgotten, with no rows.
    insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
    values (own, at, run_kind, '{}', 0, 0, who, statement_timestamp() + lease)
    on conflict (token) do nothing;
    entered := found;
    nth := array_position(run.names, who);
    if nth is null then
        -- A slot that stays open is opened by every catch-up, under another name.
        nth := least(cardinality(run.names), most) + 1;
        if entered then
            run.names[nth] := case
                when nth <= most then who
                else format(
                    'one of %s runners after the first %s',
                    coalesce(substring(run.names[nth] from '[0-9]+')::integer, 0) + 1, most
                )
            end;
            update prescient.slot_run r set names = run.names where r.slot = at;
        end if;
    end if;
    if entered and run.kind = 'by_hand' and not by_hand then
        update prescient.slot_run r set kind = 'catch_up', run_at = now where r.slot = at;
        run.kind := 'catch_up';
    end if;
    if entered and not first then
        update prescient.slot_run r
        set runners = r.runners + 1,
            workers = r.workers + able
        where r.slot = at
            and r.runners < (select count(*) from prescient.slot_claim c where c.slot = at and c.jobs = '{}' and c.allocated_until >= statement_timestamp());
    end if;
    kind := run.kind;
    left_before := run.resumed_at is not null;
    state := 'open';
end
$$;
