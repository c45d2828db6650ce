-- Lets the released rows of a batch wait, with numbers of this store, and drops the copies of the
-- others. A row keeps its slot, or waits for the next slot if its own does not exist here or has
-- begun.
-- A row that was cancelled on its way ends in history. One whose key waits here already ends as
-- replaced, because the waiting row is the later word; a due row takes it as a request. A schedule
-- that is here already likewise keeps its own row. A repeated call finds nothing of the batch.
create or replace function prescient.settle_rows(
    source      text,
    this        bigint,
    given       integer[],
    source_name text,
    target_name text,
    clock       timestamptz default null,
    out settled   bigint,
    out replaced  bigint,
    out cancelled bigint
)
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    grid  interval;
    begun timestamptz;
    due   record;
    first timestamptz;
    fresh text[];
    moved text;
    missing bigint;
begin
    lock table prescient.future_job in row exclusive mode;
    -- A session that cancels a copy waits for this transaction, and then finds the waiting row.
    perform
    from prescient.transfer_in i
    where i.source = settle_rows.source and i.batch = this
    order by i.nth
    for update;
    select s.width into grid from prescient.setting s;
    perform prescient.ensure_job(name)
    from (
        select distinct i.job_exec as name
        from prescient.transfer_in i
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given)
        order by name
    ) as names;

    -- As in enqueue: the check of a row that is due here may have begun before the arriving row was enqueued. So the
    -- arriving row is recorded as a request. A check in a transaction holds the lock, and ends first.
    begun := coalesce(clock, clock_timestamp());
    if exists (select from prescient.future_job f where f.next_check_at <= begun) then
        for due in
            select
                f.next_check_at, f.job, f.id,
                row(
                    r.next_check_at, null,
                    case when r.payload is null and (i.data ->> 'null_payload')::boolean then jsonb 'null' else r.payload end,
                    r.group_key, 'keep', null, r.enqueued_at, r.enqueued_by, r.enqueued_app, r.enqueued_actor,
                    r.enqueued_traceparent, null
                )::prescient.request as request
            from prescient.transfer_in i
            cross join lateral json_populate_record(null::prescient.future_job, i.data) as r
            cross join lateral (
                select f.next_check_at, f.job, f.id
                from prescient.future_job f
                where f.entity_name = i.entity_name
                    and f.entity_key = i.entity_key
                    and f.job = prescient.find_job(i.job_exec)
                    and f.item_key = i.item_key
                offset 0 -- by the key alone: a join may read every due row
            ) as f
            where i.source = settle_rows.source
                and i.batch = this
                and i.nth = any (given)
                and i.outcome is null
                and i.schedule is null
                and f.next_check_at <= begun
            order by f.id
        loop
            perform prescient.record_request(due.next_check_at, due.job, due.id, due.request);
        end loop;
    end if;
    -- The slot is chosen once the rows are locked: the wait may have crossed a boundary.
    first := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);

    with arriving as (
        select i.schedule, i.dropped
        from prescient.transfer_in i
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.schedule is not null
    ), written as (
        insert into prescient.schedule
        select s.*
        from arriving a
        cross join lateral json_populate_record(null::prescient.schedule, a.schedule) as s
        order by s.id
        on conflict (id) do nothing
        returning id
    ), counted as (
        -- backfills is a transaction number of the other store.
        insert into prescient.schedule_state (id, dropped, runs, last_at, dropped_at)
        select d.id, d.dropped, d.runs, d.last_at, d.dropped_at
        from arriving a
        cross join lateral json_populate_record(null::prescient.schedule_state, a.dropped) as d
        join written w on w.id = d.id
        order by d.id
        on conflict (id) do nothing
    )
    select coalesce(array_agg(w.id), '{}') into fresh from written w;

    moved := rtrim(prescient.journal_entry('moved', timestamptz 'epoch'), '}')
        || ',"from":' || to_json(source_name) || ',"to":' || to_json(target_name) || '}';
    with arriving as materialized (
        select
            r.*,
            case when r.payload is null and (i.data ->> 'null_payload')::boolean then jsonb 'null' else r.payload end as exactly,
            i.outcome, i.told, i.schedule is null or i.schedule ->> 'id' = any (fresh) as may_wait,
            i.job_exec as name, prescient.find_job(i.job_exec) as number,
            greatest(prescient.slot_ceil(r.next_check_at, grid), first) as target,
            prescient.journal_add(r.journal, prescient.journal_in(moved, r.next_check_at)) as grown
        from prescient.transfer_in i
        cross join lateral json_populate_record(null::prescient.future_job, i.data) as r
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.data is not null
    ), waiting as (
        insert into prescient.future_job (
            job, next_check_at, {{kept}},
            check_count, error_count, last_error, spent, journal, payload, enqueued_traceparent, request
        )
        select
            a.number, a.target, {{a.kept}},
            a.check_count, a.error_count, a.last_error, a.spent, a.grown, a.exactly, a.enqueued_traceparent, a.request
        from arriving a
        where a.outcome is null and a.may_wait
        order by a.entity_name, a.entity_key, a.name, a.item_key
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning job, entity_name, entity_key, item_key
    ), ended as (
        select a.*, coalesce(a.outcome, 'replaced') as ends
        from arriving a
        where a.outcome is not null
            or not a.may_wait
            or a.item_key is not null and (a.entity_name, a.entity_key, a.number, a.item_key) not in (
                select w.entity_name, w.entity_key, w.job, w.item_key
                from waiting w
                where w.item_key is not null
            )
    ), kept as (
        insert into prescient.future_job_history (
            id, job_exec, slot, {{kept}},
            check_count, error_count, last_error, spent, payload, request, journal, outcome
        )
        select
            e.id, e.name, e.target, {{e.kept}},
            e.check_count, e.error_count, e.last_error, e.spent, e.exactly, e.request,
            prescient.journal_add(e.grown, coalesce(prescient.journal_in(e.told, e.next_check_at), prescient.journal_entry('replaced', e.target))),
            e.ends
        from ended e
        returning outcome
    )
    select
        (select count(*) from waiting), count(*) filter (where k.outcome = 'replaced'), count(*) filter (where k.outcome <> 'replaced'),
        (select count(*) from arriving a where a.item_key is null and a.outcome is null and a.may_wait)
            - (select count(*) from waiting w where w.item_key is null)
    into settled, replaced, cancelled, missing
    from kept k;
    if missing > 0 then
        perform prescient.raise_suppressed('the insert of a row that came from another store');
    elsif exists (
        select
        from prescient.transfer_in i
        where i.source = settle_rows.source and i.batch = this and i.nth = any (given) and i.data is not null
            and i.item_key is not null
            and i.outcome is null
            and (i.schedule is null or i.schedule ->> 'id' = any (fresh))
            and ( -- by the key alone: a join may read every row
                select f.id
                from prescient.future_job f
                where f.entity_name = i.entity_name
                    and f.entity_key = i.entity_key
                    and f.job = prescient.find_job(i.job_exec)
                    and f.item_key = i.item_key
            ) is null
    ) then
        raise exception 'a row of another store was not inserted, and no row of its key waits'
            using errcode = 'serialization_failure',
                table = 'future_job',
                hint = 'Another session has ended the row that waited: repeat it. Or a trigger or rule suppresses the insert: drop it.';
    end if;

    delete from prescient.transfer_in i where i.source = settle_rows.source and i.batch = this;
end
$$;
