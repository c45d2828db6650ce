-- Names a consumer ($1) for a forwarder, which sends to an address ($2) the events of some types ($3, null: all).
-- A new one begins after the events that can be read now.
-- Called by jobs/event/forward.Name.
insert into prescient.event_consumer as c (name, mark, position, address, types)
select $1, coalesce(n.mark, w.mark, '0'), coalesce(n.position, w.position, 0), $2, $3::text[]
from (select) as one
left join prescient.newest_events(1) as n on true
left join prescient.event_watermark w on n.mark is null
on conflict (name) do update
set address = excluded.address, types = excluded.types
where (c.address, c.types) is distinct from (excluded.address, excluded.types)
