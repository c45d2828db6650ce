-- Names a consumer ($1) for a forwarder, which sends to an address ($2) the events of some types ($3, null: all).
-- A new one begins after the position of event_end ($4 and $5; null: no event can be read).
-- Called by jobs/event/forward.Name.
insert into prescient.event_consumer as c (name, mark, position, address, types)
select $1, coalesce($4::xid8, w.mark, '0'), coalesce($5::bigint, w.position, 0), $2, $3::text[]
from (select) as one
left join prescient.event_watermark w on $4::xid8 is null
on conflict (name) do update
set address = excluded.address, types = excluded.types
where (c.address, c.types) is distinct from (excluded.address, excluded.types)
