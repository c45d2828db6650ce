-- Counts events that a run has dropped.
insert into prescient.schedule_drop as d (id, dropped)
select id, dropped
from unnest($1::text[], $2::bigint[]) as g (id, dropped)
order by id collate "C"
on conflict (id) do update
set dropped = d.dropped + excluded.dropped
