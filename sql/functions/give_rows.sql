-- How rows move to another store. No transaction spans two stores. Rows go from the source to the
-- target in batches, by five messages. Each commits by itself and may be repeated:
--
--   1. store_rows, store_schedules: the mover reads rows in the source, where they go on waiting;
--   2. receive_rows: the target writes copies of them into transfer_in, which no run reads;
--   3. give_rows: the source deletes the rows that have not changed since, and notes them in
--      transfer_out. Until now they are the source's rows, and from now on the target's;
--   4. settle_rows: the target turns the copies of these rows into rows, and deletes the other copies;
--   5. store_forget: the source deletes its note.
--
-- So every row can be found at any moment, in the source or later in the target: cancel in the
-- target finds copies too.
-- A mover writes a number of its own into the setting of the source, and give_rows fails for a
-- mover whose number was replaced. A note in transfer_out then belongs to a batch that is to be
-- settled. A batch whose copies were there before the number was written, and that has no note
-- after it, is never released.
-- The function takes rows away for another store and returns which, by their positions in the
-- arrays. It takes rows that are still the versions that were read, that no transaction has locked,
-- and whose slots have not begun. With the row of a schedule, whose id is in schedules, goes the
-- schedule. If its version is '' the schedule has no row and goes alone. Rows of jobs that were
-- paused meanwhile, and are not in paused_jobs, stay. So do rows of a rule that was applied meanwhile.
-- It locks the slots against opening, so no run has read a row that it takes away.
create or replace function prescient.give_rows(
    own               bigint,
    this              bigint,
    target            text,
    source_name       text,
    target_name       text,
    slots             timestamptz[],
    numbers           bigint[],
    ids               bigint[],
    versions          text[],
    schedules         text[],
    schedule_versions text[],
    paused_jobs       text[],
    clock             timestamptz default null
)
returns integer[]
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    given  integer[];
    places tid[];
    deleted bigint;
    locked text[];
    begun  timestamptz;
begin
    lock table prescient.future_job in row exclusive mode;
    perform from prescient.setting s where s.mover = own for share;
    if not found then
        raise exception 'another move from this store has begun' using errcode = 'PS003',
            hint = 'That move finishes what was under way. See what is left with: prescient stores list';
    end if;
    select o.given into given from prescient.transfer_out o where o.batch = this;
    if found then
        return given;
    end if;
    perform prescient.lock_slot(g.slot, false)
    from (select distinct u.slot from unnest(slots, versions) as u (slot, version) where u.version <> '' order by u.slot) as g;

    begun := coalesce(clock, clock_timestamp());

    -- Schedules before their rows: the order of all locks of both.
    select array_agg(s.id)
    into locked
    from (
        select s.id
        from unnest(schedules, schedule_versions) as u (id, version)
        join prescient.schedule s on s.id = u.id collate "C"
        where s.xmin::text = u.version
        order by s.id
        for update of s skip locked
    ) as s;

    -- Row by row, so that a slot with a million rows is not read for a few of them.
    select array_agg(u.nth::integer order by u.nth), array_agg(f.place)
    into given, places
    from unnest(slots, numbers, ids, versions, schedules) with ordinality as u (slot, number, id, version, schedule, nth)
    cross join lateral (
        select f.ctid as place
        from prescient.future_job f
        where f.next_check_at = u.slot and f.job = u.number and f.id = u.id and f.xmin::text = u.version
        limit 1
        for update skip locked
    ) as f
    where u.slot > begun
        and (u.schedule = '' or u.schedule = any (locked))
        and not exists (
            select
            from prescient.job j
            where j.job = u.number and j.paused_at is not null and j.name <> all (paused_jobs)
        )
        and u.number <> all (array(select j.job from prescient.rule r join prescient.job j on j.name = r.name));
    -- Schedules that did not wait, and still do not.
    given := given || (
        select array_agg(u.nth::integer order by u.nth)
        from unnest(schedules, versions) with ordinality as u (schedule, version, nth)
        where u.version = ''
            and u.schedule = any (locked)
            and not exists (
                select
                from prescient.future_job f
                where f.entity_name = 'schedule'
                    and f.entity_key = u.schedule
                    and f.job = (select prescient.find_job('schedule'))
                    and f.item_key = ''
            )
    );
    if given is null then
        return '{}';
    end if;

    delete from prescient.future_job f where f.ctid = any (places);
    get diagnostics deleted = row_count;
    if deleted < cardinality(places) then -- they are locked
        perform prescient.raise_suppressed('the delete of a row that moves to another store');
    end if;
    delete from prescient.schedule s
    using unnest(schedules) with ordinality as u (schedule, nth)
    where u.nth = any (given) and s.id = u.schedule collate "C";
    delete from prescient.schedule_state d
    using unnest(schedules) with ordinality as u (schedule, nth)
    where u.nth = any (given) and d.id = u.schedule collate "C";
    insert into prescient.transfer_out (batch, target, source_name, target_name, given)
    values (this, give_rows.target, give_rows.source_name, give_rows.target_name, given);
    return given;
end
$$;
