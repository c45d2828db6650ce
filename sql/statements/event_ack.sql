-- Moves a consumer forward, never back. $4 and $5: what event_bounds has returned. It returns no row
-- if the event is beyond those that can be read, or if the consumer is at a transaction number that
-- the server had not reached.
-- Called by jobs/event/outbox.Outbox.Ack.
insert into prescient.event_consumer as c (name, mark, position, acked_at)
select $1, $2::text::xid8, $3, clock_timestamp()
where $2::text::xid8 < $4::text::xid8
    and not exists (
        select
        from prescient.event_consumer o
        where o.name = $1 and o.mark >= $5::text::xid8
    )
on conflict (name) do update
set mark = case when (excluded.mark, excluded.position) > (c.mark, c.position) then excluded.mark else c.mark end,
    position = case when (excluded.mark, excluded.position) > (c.mark, c.position) then excluded.position else c.position end,
    acked_at = excluded.acked_at
returning mark, position, acked_at
