-- Returns what a store holds, with rows and schedules counted up to $1. A store that holds nothing
-- may be removed. events: a consumer has not acknowledged the whole outbox.
-- Called by jobs/stores.Store.State.
select
    (select count(*) from (select from prescient.future_job limit $1) as f) as waiting,
    (select count(*) from (select from prescient.schedule limit $1) as s) as schedules,
    (select coalesce(sum(cardinality(o.given)), 0) from prescient.transfer_out o) as leaving,
    (select count(*) from (select from prescient.transfer_in limit $1) as i) as arriving,
    (select count(*) from prescient.slot_run r where r.state = 'open') as open_slots,
    exists (
        select
        from prescient.event_consumer c
        where exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position))
    ) as events,
    (select max(r.slot) from prescient.slot_run r) as last_slot
