-- Moves consumer $1 forward to a position ($3, $4), never back, records the error of its last try ($5; null: none), and
-- renews its lease for $6 seconds. It returns the position, and what event_waiting returns; $7: see event_dead_due. It
-- returns no row if another forwarder than token $2 has taken the lease.
-- Called by jobs/event/forward.sender.record.
update prescient.event_consumer c
set mark = case when ($3::text::xid8, $4::bigint) > (c.mark, c.position) then $3::text::xid8 else c.mark end,
    position = case when ($3::text::xid8, $4::bigint) > (c.mark, c.position) then $4::bigint else c.position end,
    acked_at = case when ($3::text::xid8, $4::bigint) > (c.mark, c.position) then t.now else c.acked_at end,
    failing_since = case when $5::text is not null then coalesce(c.failing_since, t.now) end,
    error = $5,
    allocated_until = t.until
from (select statement_timestamp() as now, statement_timestamp() + $6::double precision * interval '1 second' as until) as t
where c.name = $1 and c.token = $2
returning
    c.mark, c.position,
    exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position)),
    exists ( -- as event_dead_due; Citus takes no function of columns here
        select
        from prescient.event_dead d
        where d.consumer = c.name
            and d.try_at <= t.now
            and (
                d.send_at is null
                or d.refusals > 0
                or not exists (
                    select
                    from prescient.event_dead b
                    where b.consumer = d.consumer and b.subject = d.subject and b.number < d.number
                        and case when b.dead_at is null then b.refusals > 0 else not $7::boolean end
                )
            )
    )
