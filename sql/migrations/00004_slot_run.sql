-- The ledger of slots, who works on what, and the functions that open and close a slot.

-- +goose Up
create table prescient.slot_run (
    slot        timestamptz not null,
    state       text        not null,
    kind        text        not null,
    planned     bigint      not null,
    checked     bigint      not null default 0,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    take_overs  integer     not null default 0,
    horizon     xid8        not null default '0',
    settled     boolean     not null default false,
    closed_by   bigint,
    names       text[]      not null default '{}',
    opened_at   timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    constraint slot_run_pkey primary key (slot),
    constraint slot_run_state check (state in ('open', 'done')),
    constraint slot_run_kind check (kind in ('run', 'catch_up')),
    constraint slot_run_finished check ((state = 'done') = (finished_at is not null))
);

comment on table prescient.slot_run is 'one row for every slot that was opened, an empty one too; a gap is a missed slot';
comment on column prescient.slot_run.planned is 'rows when the slot was opened; an estimate when there were many';
comment on column prescient.slot_run.checked is 'rows whose outcome a run recorded: finished + rescheduled + failed';
comment on column prescient.slot_run.failed is 'checks that ended in an error, to be tried again or given up';
comment on column prescient.slot_run.horizon is 'a transaction that brings rows into the slot has a lower number';
comment on column prescient.slot_run.closed_by is 'the claim whose last record closed the slot; null: it was closed without one';
comment on column prescient.slot_run.names is 'of its runners; traces have their places in it';
comment on column prescient.slot_run.settled is 'all of those had ended when the jobs of the slot were looked for: no row can come behind a cursor';

-- status and catch-up look for slots that were left open: few rows, whatever the age of the ledger.
create index slot_run_open on prescient.slot_run (slot) where state = 'open';

-- A slot is jobs. A row stays undrained where a slot is closed without the rows of a paused job.
create table prescient.slot_job (
    slot        timestamptz not null,
    job         bigint      not null,
    planned     bigint      not null,
    cursor      bigint      not null default 0,
    drained     boolean     not null default false,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    spent       interval    not null default '0',
    late        bigint      not null default 0,
    error       text,
    first_at    timestamptz,
    last_at     timestamptz,
    constraint slot_job_pkey primary key (slot, job),
    constraint slot_job_slot_run_fkey foreign key (slot) references prescient.slot_run (slot) on delete cascade
)
-- Updated by every claim: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.slot_job is 'the rows of one job in one slot';
comment on column prescient.slot_job.cursor is 'rows with an id up to this one have been claimed';
comment on column prescient.slot_job.drained is 'no row comes after the cursor';
comment on column prescient.slot_job.spent is 'run time of its checks in this slot';
comment on column prescient.slot_job.late is 'checks that began later after the slot than the sla of the job';
comment on column prescient.slot_job.error is 'of one of the failed checks';
comment on column prescient.slot_job.first_at is 'when the first of its rows were recorded; last_at: the last';

create table prescient.slot_claim (
    token           bigint      not null,
    slot            timestamptz not null,
    kind            text        not null,
    jobs            bigint[]   not null,
    first_id        bigint      not null,
    last_id         bigint      not null,
    runner          text        not null,
    allocated_until timestamptz not null,
    -- The fence locks this key, which a take-over changes and a heartbeat does not: records and heartbeats never wait
    -- for each other, and a take-over waits for a record.
    constraint slot_claim_pkey primary key (token),
    constraint slot_claim_kind check (kind in ('run', 'catch_up'))
)
-- Updated by every heartbeat: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.slot_claim is 'a runner''s time-limited right to the rows of jobs from first_id to last_id; gone when the last of them is recorded';
comment on column prescient.slot_claim.token is 'made by the runner; fences one that lost its lease';
comment on column prescient.slot_claim.jobs is 'empty: the runner is at the slot, and may claim more';

-- open_slot, close_slot, take_over, and what lists claims.
create index slot_claim_slot on prescient.slot_claim (slot);

-- What was recorded, a few rows a transaction: adding it up in slot_job would let records, and claims, wait for each
-- other. Added up when the slot is closed. job 0 marks a transaction, so that a runner which got no reply finds out.
create table prescient.slot_tally (
    slot        timestamptz not null,
    token       bigint      not null,
    part        bigint      not null,
    job         bigint      not null,
    bucket      smallint    not null default -1,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    spent       interval    not null default '0',
    late        bigint      not null default 0,
    error       text,
    take_overs  integer     not null default 0,
    recorded_at timestamptz not null default clock_timestamp(),
    constraint slot_tally_pkey primary key (slot, token, part, job, bucket)
);

comment on column prescient.slot_tally.bucket is 'of their lateness, see lateness_bucket; -1: they were not checked';

-- How late the checks of a job began, for its percentiles and histograms.
create table prescient.slot_lateness (
    slot   timestamptz not null,
    job    bigint      not null,
    bucket smallint    not null,
    checks bigint      not null,
    constraint slot_lateness_pkey primary key (slot, job, bucket),
    constraint slot_lateness_slot_run_fkey foreign key (slot) references prescient.slot_run (slot) on delete cascade
);

-- The bucket of a lateness in microseconds: a check of bucket n began no later than 100 ms * 2 ^ (n / 4) after its slot.
create function prescient.lateness_bucket(lateness bigint)
returns smallint
language sql
immutable
parallel safe
as $$
    select case
        when lateness is null then -1
        when lateness <= 100000 then 0
        else ceil(round((4 * ln(lateness / 100000::double precision) / ln(2::double precision))::numeric, 6))
    end::smallint
$$;

-- Of a check that asked for another: its slot in seconds since 1970, the place of its runner among those of the slot, how late it
-- was in milliseconds, and how long it took in microseconds. Null for a line of a trace that is none. The short form is base64 of 9 bytes:
-- 4 are the slot, one the place, two the lateness, two the duration, of both 4 bits for how many bits were left out and 12 for the
-- others. After it stands what was learned, if anything was. The long form is that of trace_entry, and has no place but the name.
create function prescient.trace_check(line text)
returns bigint[]
language sql
immutable
parallel safe
as $$
    select case
        when line like '["next",%' then array[(line::jsonb ->> 1)::bigint, null, (line::jsonb ->> 3)::bigint, (line::jsonb ->> 4)::bigint]
        when line like '[%' or line like '{%' then null
        else (
            select array[
                ((get_byte(b, 0)::bigint * 256 + get_byte(b, 1)) * 256 + get_byte(b, 2)) * 256 + get_byte(b, 3),
                get_byte(b, 4),
                (get_byte(b, 5) % 16 * 256 + get_byte(b, 6))::bigint << get_byte(b, 5) / 16,
                (get_byte(b, 7) % 16 * 256 + get_byte(b, 8))::bigint << get_byte(b, 7) / 16
            ]
            from decode(left(line, 12), 'base64') as b
        )
    end
$$;

-- A line of a trace as JSON, in the long form of trace_entry.
create function prescient.trace_value(line text)
returns jsonb
language sql
stable
as $$
    select case
        when line like '[%' or line like '{%' then line::jsonb
        else (
            select jsonb_build_array('next', c.value [1], (
                select r.names [c.value [2]]
                from prescient.slot_run r
                where r.slot = to_timestamp(c.value [1])
            ), c.value [3], c.value [4]) || case when length(line) > 12 then jsonb_build_array(null, null, substr(line, 13)::jsonb) else '[]' end
            from (select prescient.trace_check(line) as value) as c
        )
    end
$$;

-- A trace as it is told where the ledger is another.
create function prescient.trace_abroad(trace text)
returns text
language sql
stable
as $$
    select string_agg(prescient.trace_value(line)::text, chr(10) order by nth)
    from unnest(string_to_array(trace, chr(10))) with ordinality as t (line, nth)
$$;

-- The jobs that have rows in a slot, found by jumping from job to job through the slot index. Without a word the
-- server expects a thousand of them, and what calls this to be worth compiling: that takes a new session 20 ms.
-- +goose StatementBegin
create function prescient.jobs_in_slot(at timestamptz)
returns setof bigint
language plpgsql
stable
rows 10
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    found_job bigint;
begin
    select f.job into found_job from prescient.future_job f where f.next_check_at = at order by f.job limit 1;
    while found_job is not null loop
        return next found_job;
        select f.job into found_job from prescient.future_job f where f.next_check_at = at and f.job > found_job order by f.job limit 1;
    end loop;
end
$$;
-- +goose StatementEnd

-- How many rows a job has in a slot, up to 1,000; above that an estimate: the range of their ids is cut into 32 parts, and
-- in each the place of the 32nd row, or all rows where they are fewer, tells how many it has. So it is seen that rows came in
-- bursts, and 2,100 entries of the index are read at the most.
-- +goose StatementBegin
create function prescient.rows_in_slot(at timestamptz, number bigint)
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
-- +goose StatementEnd

-- Whoever opens, closes or looks into a slot does so alone, and whoever claims does so beside others who claim. Each looks
-- after that, by a statement of its own, and so sees what the others have committed. Those who wait have their turn.
-- +goose StatementBegin
create function prescient.lock_slot(at timestamptz, alone boolean)
returns void
language plpgsql
as $$
begin
    -- In the order in which set_width and records take their locks, too. To read nothing locks the table; lock table would do so
    -- on all servers of Citus, and wait for one that is down.
    perform from prescient.future_job where false;
    if alone then
        perform pg_advisory_xact_lock(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    else
        perform pg_advisory_xact_lock_shared(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    end if;
end
$$;
-- +goose StatementEnd

-- Looks which jobs have rows in a slot, and lets their claims begin at the first; returns how many rows there are.
-- Only where nobody has a claim: a row is then either recorded, or to be claimed.
-- +goose StatementBegin
create function prescient.look_into_slot(at timestamptz)
returns bigint
language plpgsql
as $$
declare
    numbers bigint[];
    plans   bigint[];
begin
    with due as materialized (
        select number, prescient.rows_in_slot(at, number) as planned
        from prescient.setting -- which is where they are counted
        cross join prescient.jobs_in_slot(at) as number
    )
    select array_agg(due.number), array_agg(due.planned) into numbers, plans from due;
    if numbers is null then
        return 0;
    end if;
    insert into prescient.slot_job as s (slot, job, planned)
    select at, due.number, due.planned
    from unnest(numbers, plans) as due (number, planned)
    on conflict (slot, job) do update
    set cursor = 0,
        drained = false,
        planned = greatest(s.planned, s.finished + s.rescheduled + s.failed + excluded.planned);
    return (select sum(planned) from unnest(plans) as planned);
end
$$;
-- +goose StatementEnd

-- Whether a job of a slot has rows that may be claimed.
-- +goose StatementBegin
create function prescient.slot_is_claimable(at timestamptz)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from prescient.slot_job s
        left join prescient.job j on j.job = s.job
        where s.slot = at and not s.drained and j.paused_at is null
    );
end
$$;
-- +goose StatementEnd

-- Ends the sessions that work under claims which were taken over: nothing of theirs can be committed any more, and a
-- process that was stopped in the middle of a check's transaction would keep its locks. A role may end its own
-- sessions; others end by their idle_in_transaction_session_timeout.
-- +goose StatementBegin
create function prescient.end_sessions(tokens bigint[])
returns void
language plpgsql
as $$
begin
    perform pg_terminate_backend(a.pid)
    from pg_stat_activity a
    where a.application_name = any (select 'prescient claim ' || t from unnest(tokens) as t)
        and a.datname = current_database()
        and a.usename = session_user
        and pg_has_role(a.usesysid, 'usage') -- not where the session has taken another role
        and a.pid <> pg_backend_pid();
end
$$;
-- +goose StatementEnd

-- Lets a runner into a slot, for as long as the claim with its token lasts, and opens the slot where it is the first.
-- To be repeated with the same token as often as need be.
--
-- state: 'early' (the slot has not begun, by ahead, or is not on the grid), 'done', 'busy' (a catch-up found runners
-- at it), or 'open'. A catch-up opens a slot that is done for the rows in it that are not paused.
-- settled: no transaction can bring rows into the slot any more; the jobs are looked for anew until somebody claims.
-- taken: claims of dead runners, whose rows can be claimed again. able: how many checks the runner does at once. place: where the
-- runner is among the names of the slot.
--
-- +goose StatementBegin
create function prescient.open_slot(
    at       timestamptz,
    run_kind text,
    own      bigint,
    who      text,
    lease    interval,
    clock    timestamptz default null,
    able     integer default 0,
    out state   text,
    out planned bigint,
    out settled boolean,
    out ahead   interval,
    out taken   bigint,
    out place   integer
)
language plpgsql
as $$
declare
    run    prescient.slot_run;
    now    timestamptz;
    first  boolean; -- nobody has opened the slot before
    fresh  boolean; -- claims begin at the first row
    stale  bigint[];
    waits  bigint;
begin
    perform prescient.lock_slot(at, true);
    now := clock_timestamp();
    ahead := at - coalesce(clock, now);
    if ahead > interval '0' or exists (select from prescient.setting s where prescient.slot_floor(at, s.width) <> at) then
        state := 'early';
        return;
    end if;
    -- The number is taken when the slot has begun: nobody with a higher one can choose the slot any more.
    insert into prescient.slot_run (slot, state, kind, planned, horizon, settled, runners, workers)
    values (at, 'open', run_kind, 0, pg_current_xact_id(), false, 1, able)
    on conflict (slot) do nothing
    returning * into run;
    first := found;
    fresh := first;
    if not first then
        select * into run from prescient.slot_run r where r.slot = at;
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
        -- First, since they may hold locks on their claims.
        perform prescient.end_sessions(stale);
        delete from prescient.slot_claim c where c.slot = at;
        if stale is not null then
            insert into prescient.slot_tally (slot, token, part, job, take_overs) values (at, own, 0, 0, taken);
        end if;
        update prescient.slot_job s set drained = true where s.slot = at and not s.drained;
    end if;
    if fresh or not run.settled and not exists (select from prescient.slot_job s where s.slot = at and s.cursor > 0) then
        settled := prescient.ended_before() >= run.horizon;
        waits := prescient.look_into_slot(at); -- a statement after the one that asked for the snapshot
        if first and settled and waits = 0 then
            update prescient.slot_run r set state = 'done', settled = true, finished_at = now where r.slot = at;
            state := 'done';
            return;
        end if;
        planned := case run.state when 'done' then run.planned + waits else greatest(run.planned, waits) end;
        update prescient.slot_run r
        set state = 'open',
            kind = case run.state when 'done' then run_kind else r.kind end,
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
    -- Here, and not when it is opened: the slot may be an old one that the ledger had forgotten, with nothing in it.
    place := array_position(run.names, who);
    if place is null then
        update prescient.slot_run r set names = run.names || who where r.slot = at;
        place := cardinality(run.names) + 1;
    end if;
    insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
    values (own, at, run_kind, '{}', 0, 0, who, statement_timestamp() + lease)
    on conflict (token) do nothing;
    if found and not first then
        update prescient.slot_run r
        set runners = r.runners + 1,
            workers = r.workers + able
        where r.slot = at
            and r.runners < (select count(*) from prescient.slot_claim c where c.slot = at and c.jobs = '{}' and c.allocated_until >= statement_timestamp());
    end if;
    state := 'open';
end
$$;
-- +goose StatementEnd

-- Claims rows of a slot: the next page of one job, or all rows of several jobs that fit into a page together. Of the
-- jobs that are asked for, rest has those that may be claimed further, by anybody.
-- The claim is that of the token: once it exists the call returns it again.
-- +goose StatementBegin
create function prescient.claim_rows(
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
    select c.jobs, c.first_id, c.last_id into jobs, first_id, last_id from prescient.slot_claim c where c.token = own;
    if not found then
        for due in
            select s.job, s.cursor
            from prescient.slot_job s
            left join prescient.job j on j.job = s.job
            where s.slot = at and s.job = any (numbers) and not s.drained and j.paused_at is null
            order by array_position(numbers, s.job)
        loop
            -- Between the ids of what a claim has of several jobs there are none that others may have claimed.
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
-- +goose StatementEnd

-- Takes over a claim whose lease has ended, under a new token: the same rows, of which those that are recorded are gone.
-- +goose StatementBegin
create function prescient.take_over(
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
-- +goose StatementEnd

-- Ends a transaction that records something: it fails where the claim with the token is not there any more, and leaves
-- a mark by which a runner that gets no reply finds out. ends: nothing of the claim is left to be recorded.
-- moved_to: the first instant to which it has moved rows that it had not locked before; null: to none. Their locks may have been
-- waited for over a boundary, and then it fails: they would be in a slot that has begun. Last, since it may wait for the claim, too,
-- and what was recorded already is to be known by its mark.
-- +goose StatementBegin
create function prescient.fence(at timestamptz, own bigint, this bigint, ends boolean, moved_to timestamptz)
returns void
language plpgsql
as $$
declare
    clock timestamptz;
begin
    if ends then
        delete from prescient.slot_claim c where c.token = own;
    else
        perform from prescient.slot_claim c where c.token = own for key share;
    end if;
    if not found then
        raise exception 'the lease of claim % is lost', own using errcode = 'PS001';
    end if;
    insert into prescient.slot_tally (slot, token, part, job) values (at, own, this, 0);
    clock := clock_timestamp();
    if moved_to <= clock and exists (select from prescient.setting s where prescient.slot_floor(now(), s.width) + s.width <= clock) then
        raise exception 'a slot has begun while rows were moved to it' using errcode = 'PS004';
    end if;
end
$$;
-- +goose StatementEnd

-- Closes a slot when nothing of it is left to be claimed or recorded but the rows of paused jobs.
--
-- state: 'done'; 'busy' (somebody has a claim); 'left' (a job has rows to be claimed); 'again' (as left, and they came
-- behind a cursor, by a transaction from before the slot was opened). look: look for such rows in any case. own: the claim of which
-- nothing is left with the record in the same transaction.
-- +goose StatementBegin
create function prescient.close_slot(at timestamptz, look boolean default false, own bigint default null, out state text)
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
    -- What is dead and of a job that was paused since goes back to where it was.
    delete from prescient.slot_claim c where c.slot = at and c.jobs <> '{}';
    look := look or found;
    if prescient.slot_is_claimable(at) then
        state := 'left';
        return;
    end if;
    if look or not run.settled then
        run.settled := run.settled or prescient.ended_before() >= run.horizon;
        perform prescient.look_into_slot(at); -- a statement after the one that asked for the snapshot
        if prescient.slot_is_claimable(at) then
            update prescient.slot_run r set settled = run.settled where r.slot = at;
            state := 'again';
            return;
        end if;
    end if;

    delete from prescient.slot_claim c where c.slot = at;
    -- Nothing is added to the tallies any more: who records has a claim.
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
        from prescient.slot_tally t
        where t.slot = at
        group by t.job
    ) as n
    where s.slot = at and s.job = n.job;
    insert into prescient.slot_lateness as s (slot, job, bucket, checks)
    select t.slot, t.job, t.bucket, sum(t.finished + t.rescheduled + t.failed)
    from prescient.slot_tally t
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
        from prescient.slot_tally t
        where t.slot = at
    ) as n
    where r.slot = at;
    delete from prescient.slot_tally t where t.slot = at;
    state := 'done';
end
$$;
-- +goose StatementEnd

-- What begin_check is to begin: the row, how to wait for it, and the settings of its transaction, of which the times are in milliseconds.
create type prescient.row_check as (
    slot         timestamptz,
    job          bigint,
    id           bigint,
    patient      boolean,
    session      text,
    lock_timeout text,
    idle_timeout text
);

-- Begins the transaction of a check of one row: locks the row, unless somebody else has. The patient wait for the row, as
-- long as lock_timeout says: they have no other lock yet. session is the name by which end_sessions finds it. It and the timeouts are
-- set here, and by an assignment: every statement more that a check has costs it 1 to 3 %; and one argument, as for record_row.
-- Returns 'locked' and the number of the transaction, 'busy' (somebody else has locked it) or 'gone'.
-- +goose StatementBegin
create function prescient.begin_check(c prescient.row_check)
returns text
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    settings text;
begin
    settings := set_config('application_name', c.session, true) || set_config('lock_timeout', c.lock_timeout, true)
        || set_config('idle_in_transaction_session_timeout', c.idle_timeout, true);
    if c.patient then
        perform from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id for update;
    else
        perform from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id for update skip locked;
    end if;
    if found then
        return 'locked ' || pg_current_xact_id()::xid::text;
    elsif exists (select from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id) then
        return 'busy';
    end if;
    return 'gone';
end
$$;
-- +goose StatementEnd

-- Fails where the transaction is not the one of this number: the check has ended that one.
-- +goose StatementBegin
create function prescient.same_check(transaction text)
returns void
language plpgsql
as $$
begin
    if pg_current_xact_id_if_assigned()::xid::text is distinct from transaction then
        raise exception 'transaction % of the check was ended', transaction using errcode = 'PS002';
    end if;
end
$$;
-- +goose StatementEnd

-- What became of a row. A null outcome moves it. The times are in microseconds; late: later than the SLA of the job.
--
-- In the transaction that a check of this row alone had, transaction is not null but the number of it. Then record_row does what
-- same_check and fence do, too, sets what begin_check does, and with unlocks releases the advisory locks that the check has left.
create type prescient.row_outcome as (
    slot          timestamptz,
    token         bigint,
    part          bigint,
    job           bigint,
    job_exec      text,
    id            bigint,
    outcome       text,
    move          text,
    next_check_at timestamptz,
    error         text,
    payload       jsonb,
    lateness      bigint,
    duration      bigint,
    late          boolean,
    runner        text,
    entry         text,
    clock         timestamptz,
    transaction   text,
    session       text,
    lock_timeout  text,
    idle_timeout  text,
    unlocks       boolean
);

-- Records the outcome of one row: what rows_finish and rows_move do for many, with plans that are kept. Returns false where the
-- row is gone, which is then its owner's again. One argument, since each costs the server more to read than a field of it.
-- +goose StatementBegin
create function prescient.record_row(o prescient.row_outcome)
returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
    settings text;
    target   timestamptz;
    failed   boolean := o.outcome is not distinct from 'failed' or o.outcome is null and o.move = 'retry';
    there    boolean;
begin
    if o.transaction is not null then
        settings := set_config('application_name', o.session, true) || set_config('lock_timeout', o.lock_timeout, true)
            || set_config('idle_in_transaction_session_timeout', o.idle_timeout, true);
        if pg_current_xact_id_if_assigned()::xid::text is distinct from o.transaction then
            raise exception 'transaction % of the check was ended', o.transaction using errcode = 'PS002';
        elsif o.unlocks and pg_advisory_unlock_all() is null then
            null;
        end if;
    end if;
    if o.outcome is null then
        target := greatest(o.next_check_at, prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', o.clock));
        update prescient.future_job f
        set next_check_at = target,
            check_count = case o.move when 'next' then f.check_count + 1 else f.check_count end,
            error_count = case o.move when 'next' then 0 when 'retry' then f.error_count + 1 else f.error_count end,
            last_error = coalesce(o.error, f.last_error),
            payload = coalesce(o.payload, f.payload),
            spent = f.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
            trace = prescient.traced(f.trace, o.entry)
        where f.next_check_at = o.slot and f.job = o.job and f.id = o.id;
    else
        with gone as (
            delete from prescient.future_job f
            where f.next_check_at = o.slot and f.job = o.job and f.id = o.id
            returning *
        )
        insert into prescient.future_job_history (
            id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace, outcome, lateness, duration, runner
        )
        select
            g.id, o.job_exec, g.entity_name, g.entity_key, g.item_key, g.group_key,
            g.first_check_at, g.next_check_at,
            case when o.outcome in ('done', 'max_checks', 'horizon', 'past') then g.check_count + 1 else g.check_count end,
            case when o.outcome = 'failed' then g.error_count + 1 else g.error_count end,
            coalesce(o.error, g.last_error),
            g.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
            g.payload, g.enqueued_at, g.enqueued_by, g.enqueued_app, g.enqueued_actor, g.asked_for, g.asked_within, g.trace, o.outcome,
            o.lateness::double precision * interval '1 microsecond',
            o.duration::double precision * interval '1 microsecond',
            o.runner
        from gone g;
    end if;
    there := found;
    if o.transaction is not null then
        perform from prescient.slot_claim c where c.token = o.token for key share;
        if not found then
            raise exception 'the lease of claim % is lost', o.token using errcode = 'PS001';
        end if;
    end if;
    if there then
        insert into prescient.slot_tally (slot, token, part, job, bucket, finished, rescheduled, failed, late, error, spent)
        values (
            o.slot, o.token, o.part, o.job, prescient.lateness_bucket(o.lateness),
            (o.outcome is not null and not failed)::integer, (o.outcome is null and not failed)::integer, failed::integer, o.late::integer,
            case when failed then o.error end,
            coalesce(o.duration, 0)::double precision * interval '1 microsecond'
        );
    elsif o.transaction is not null then
        insert into prescient.slot_tally (slot, token, part, job) values (o.slot, o.token, o.part, 0);
    end if;
    return there;
end
$$;
-- +goose StatementEnd

-- What rows_finish does, for Citus: that would take its parts apart, and send what one has found for another to all servers. An insert
-- of what a delete returns stays where the rows are.
-- +goose StatementBegin
create function prescient.finish_rows_apart(
    at         timestamptz,
    own        bigint,
    this       bigint,
    numbers    bigint[],
    first_id   bigint,
    last_id    bigint,
    ids        bigint[],
    outcomes   text[],
    errors     text[],
    latenesses bigint[],
    durations  bigint[],
    runner     text,
    names      text[],
    out finished    bigint,
    out rescheduled bigint,
    out failed      bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    gone_ids   bigint[] := '{}';
    gone_names text[]   := '{}';
    slas       interval[];
    entry      record;
begin
    rescheduled := 0;
    slas := array(select j.sla from unnest(numbers) with ordinality as n (job, nth) left join prescient.job j on j.job = n.job order by n.nth);
    for entry in
        with gone as (
            delete from prescient.future_job f
            using unnest(ids, outcomes, errors, latenesses, durations) as o (id, outcome, error, lateness, duration)
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id = o.id
            returning f.*, o.outcome, o.error, o.lateness, o.duration
        )
        insert into prescient.future_job_history (
            id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
            last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, trace, outcome, lateness, duration, runner
        )
        select
            g.id, j.name, g.entity_name, g.entity_key, g.item_key, g.group_key, g.first_check_at, g.next_check_at,
            case when g.outcome in ('done', 'max_checks', 'horizon', 'past') then g.check_count + 1 else g.check_count end,
            case when g.outcome = 'failed' then g.error_count + 1 else g.error_count end,
            coalesce(g.error, g.last_error),
            g.spent + coalesce(g.duration, 0)::double precision * interval '1 microsecond',
            g.payload, g.enqueued_at, g.enqueued_by, g.enqueued_app, g.enqueued_actor, g.asked_for, g.asked_within, g.trace, g.outcome,
            g.lateness::double precision * interval '1 microsecond',
            g.duration::double precision * interval '1 microsecond',
            finish_rows_apart.runner
        from gone g
        join unnest(numbers, names) as j (job, name) on j.job = g.job
        returning id, job_exec
    loop
        gone_ids := gone_ids || entry.id;
        gone_names := gone_names || entry.job_exec;
    end loop;
    insert into prescient.slot_tally (slot, token, part, job, bucket, finished, failed, late, error, spent)
    select
        at, own, this, j.job, prescient.lateness_bucket(o.lateness) as bucket,
        count(*) filter (where o.outcome <> 'failed'), count(*) filter (where o.outcome = 'failed'),
        count(*) filter (where o.lateness::double precision * interval '1 microsecond' > j.sla),
        min(o.error) filter (where o.outcome = 'failed'),
        coalesce(sum(o.duration), 0)::double precision * interval '1 microsecond'
    from unnest(gone_ids, gone_names) as g (id, name)
    join unnest(numbers, names, slas) as j (job, name, sla) on j.name = g.name
    join unnest(ids, outcomes, errors, latenesses, durations) as o (id, outcome, error, lateness, duration) on o.id = g.id
    group by j.job, bucket;
    select count(*) filter (where o.outcome <> 'failed'), count(*) filter (where o.outcome = 'failed')
    into finished, failed
    from unnest(gone_ids) as g (id)
    join unnest(ids, outcomes) as o (id, outcome) on o.id = g.id;
end
$$;
-- +goose StatementEnd

-- Moves rows of a claim to later slots, and counts them for the claim (own) by job. kinds: next (the check asked for it),
-- retry (it failed), defer (it did not run). payloads replace those of the rows where they are not null, entries go into their
-- traces. A slot that has begun by now is none to move to. Rows that are no longer in the slot are their owner's again.
-- Planned by each call, with the numbers that it is given.
-- +goose StatementBegin
create function prescient.move_rows(
    at         timestamptz,
    own        bigint,
    this       bigint,
    numbers    bigint[],
    first_id   bigint,
    last_id    bigint,
    ids        bigint[],
    kinds      text[],
    check_ats  timestamptz[],
    errors     text[],
    durations  bigint[],
    payloads   jsonb[],
    clock      timestamptz,
    entries    text[],
    latenesses bigint[],
    out finished    bigint,
    out rescheduled bigint,
    out failed      bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    tally    record;
    earliest timestamptz := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
begin
    finished := 0;
    rescheduled := 0;
    failed := 0;
    for tally in
        with outcome as (
            select *
            from unnest(ids, kinds, check_ats, errors, durations, payloads, entries, latenesses)
                as o (id, kind, next_check_at, error, duration, payload, entry, lateness)
        ), moved as (
            update prescient.future_job f
            set next_check_at = greatest(o.next_check_at, earliest),
                check_count = case when o.kind = 'next' then f.check_count + 1 else f.check_count end,
                error_count = case when o.kind = 'next' then 0 when o.kind = 'retry' then f.error_count + 1 else f.error_count end,
                last_error = coalesce(o.error, f.last_error),
                payload = coalesce(o.payload, f.payload),
                spent = f.spent + coalesce(o.duration, 0)::double precision * interval '1 microsecond',
                trace = prescient.traced(f.trace, o.entry)
            from outcome o
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id = o.id
            returning f.job, o.kind, o.error, o.duration, o.lateness
        )
        insert into prescient.slot_tally (slot, token, part, job, bucket, rescheduled, failed, late, error, spent)
        select
            at, own, this, m.job, prescient.lateness_bucket(m.lateness) as bucket,
            count(*) filter (where m.kind <> 'retry'), count(*) filter (where m.kind = 'retry'),
            count(*) filter (where m.lateness::double precision * interval '1 microsecond' > j.sla),
            min(m.error) filter (where m.kind = 'retry'),
            coalesce(sum(m.duration), 0)::double precision * interval '1 microsecond'
        from moved m
        left join prescient.job j on j.job = m.job
        group by m.job, bucket
        returning rescheduled, failed
    loop
        rescheduled := rescheduled + tally.rescheduled;
        failed := failed + tally.failed;
    end loop;
end
$$;
-- +goose StatementEnd

-- move_rows for rows of which all is alike: no error, and one entry for their traces. See rows_finish_alike.
-- +goose StatementBegin
create function prescient.move_rows_alike(
    at       timestamptz,
    own      bigint,
    this     bigint,
    numbers  bigint[],
    first_id bigint,
    last_id  bigint,
    ids      bigint[],
    check_at timestamptz,
    kind     text,
    duration bigint,
    clock    timestamptz,
    entry    text,
    lateness bigint,
    out finished    bigint,
    out rescheduled bigint,
    out failed      bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    tally    record;
    earliest timestamptz := prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', clock);
begin
    finished := 0;
    rescheduled := 0;
    failed := 0;
    for tally in
        with moved as (
            update prescient.future_job f
            set next_check_at = greatest(check_at, earliest),
                check_count = f.check_count + case when kind = 'next' then 1 else 0 end,
                error_count = case when kind = 'next' then 0 else f.error_count end,
                spent = f.spent + coalesce(duration, 0)::double precision * interval '1 microsecond',
                trace = prescient.traced(f.trace, entry)
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id + 0 = any (ids)
            returning f.job
        )
        insert into prescient.slot_tally (slot, token, part, job, bucket, rescheduled, late, spent)
        select
            at, own, this, m.job, prescient.lateness_bucket(lateness), m.n,
            case when lateness::double precision * interval '1 microsecond' > j.sla then m.n else 0 end,
            m.n * coalesce(duration, 0)::double precision * interval '1 microsecond'
        from (select job, count(*) as n from moved group by job) as m
        left join prescient.job j on j.job = m.job
        returning rescheduled
    loop
        rescheduled := rescheduled + tally.rescheduled;
    end loop;
end
$$;
-- +goose StatementEnd

update prescient.setting
set schema_version = 4;

-- +goose Down
update prescient.setting
set schema_version = 3;
drop function prescient.move_rows_alike(timestamptz, bigint, bigint, bigint[], bigint, bigint, bigint[], timestamptz, text, bigint, timestamptz, text, bigint);
drop function prescient.move_rows(timestamptz, bigint, bigint, bigint[], bigint, bigint, bigint[], text[], timestamptz[], text[], bigint[], jsonb[], timestamptz, text[], bigint[]);
drop function prescient.finish_rows_apart(timestamptz, bigint, bigint, bigint[], bigint, bigint, bigint[], text[], text[], bigint[], bigint[], text, text[]);
drop function prescient.record_row(prescient.row_outcome);
drop type prescient.row_outcome;
drop function prescient.same_check(text);
drop function prescient.begin_check(prescient.row_check);
drop type prescient.row_check;
drop function prescient.close_slot(timestamptz, boolean, bigint);
drop function prescient.fence(timestamptz, bigint, bigint, boolean, timestamptz);
drop function prescient.take_over(timestamptz, text, bigint, text, interval, bigint[]);
drop function prescient.claim_rows(timestamptz, text, bigint, text, interval, bigint[], bigint);
drop function prescient.open_slot(timestamptz, text, bigint, text, interval, timestamptz, integer);
drop function prescient.end_sessions(bigint[]);
drop function prescient.slot_is_claimable(timestamptz);
drop function prescient.look_into_slot(timestamptz);
drop function prescient.lock_slot(timestamptz, boolean);
drop function prescient.rows_in_slot(timestamptz, bigint);
drop function prescient.jobs_in_slot(timestamptz);
drop function prescient.trace_abroad(text);
drop function prescient.trace_value(text);
drop function prescient.trace_check(text);
drop function prescient.lateness_bucket(bigint);
drop table prescient.slot_lateness;
drop table prescient.slot_tally;
drop table prescient.slot_claim;
drop table prescient.slot_job;
drop table prescient.slot_run;
