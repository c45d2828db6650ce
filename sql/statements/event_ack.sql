-- Moves a consumer forward, never back, and not beyond what can be read. No row: it would be beyond.
insert into prescient.event_consumer as c (name, mark, position)
select $1, $2::text::xid8, $3
where $2::text::xid8 < pg_snapshot_xmin(pg_current_snapshot())
on conflict (name) do update
set mark = case when (excluded.mark, excluded.position) > (c.mark, c.position) then excluded.mark else c.mark end,
    position = case when (excluded.mark, excluded.position) > (c.mark, c.position) then excluded.position else c.position end,
    acked_at = clock_timestamp()
returning mark, position, acked_at
