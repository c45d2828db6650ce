-- Returns what a store holds, with rows and schedules counted up to $1. A store that holds nothing
-- may be removed. periodic: of the waiting rows, those of periodic functions that wait for a later
-- instant. They end with the store, because each store has its own. A retry, or a row that looks
-- again, is still for its own instant, and is not among them. Instants are compared as text, because
-- an application may have written any payload. The count is in the order of the slot index, because
-- a drained table has many dead rows. events: a consumer has not acknowledged the whole outbox.
-- undelivered, counted up to $1: events that a destination refuses, dead letters, and messages that wait for
-- their time. They are no longer in the outbox of their consumer, and no move takes them.
-- $2: a replayed clock, or null.
-- Called by jobs/stores.Store.State.
select
    w.waiting,
    w.periodic,
    (select count(*) from prescient.rule) as rules,
    (select count(*) from (select from prescient.schedule limit $1) as s) as schedules,
    (select coalesce(sum(cardinality(o.given)), 0) from prescient.transfer_out o) as leaving,
    (select count(*) from (select from prescient.transfer_in limit $1) as i) as arriving,
    (select count(*) from prescient.slot_run r where r.state = 'open') as open_slots,
    exists (
        select
        from prescient.event_consumer c
        where exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position))
    ) as events,
    (select count(*) from (select from prescient.event_dead limit $1) as d) as undelivered,
    (select max(r.slot) from prescient.slot_run r) as last_slot
from (
    select count(*) as waiting, count(*) filter (where f.periodic) as periodic
    from (
        select
            f.entity_name = 'periodic'
            and f.item_key = ''
            and f.next_check_at > c.now
            and f.check_count + f.error_count = 0
            and (f.payload ->> 'instant') collate "C" > to_char(c.now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            and exists (select from prescient.job j where j.job = f.job and j.name = f.entity_key) as periodic
        from prescient.future_job f
        cross join (select coalesce($2::timestamptz, statement_timestamp()) as now) as c
        order by f.next_check_at, f.job, f.id
        limit $1
    ) as f
) as w
