-- Begins a backfill of a schedule, and ends those that are under way: they find another number. It waits for their pages.
insert into prescient.schedule_drop as d (id, dropped, backfills)
values ($1, 0, 1)
on conflict (id) do update
set backfills = d.backfills + 1
returning d.backfills
