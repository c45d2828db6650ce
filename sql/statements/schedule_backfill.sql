-- Begins a backfill of a schedule, and ends those that are under way: they find another number. The number is
-- the transaction's, which no backfill had of a schedule that was deleted and created again.
insert into prescient.schedule_drop as d (id, dropped, backfills)
values ($1, 0, pg_current_xact_id()::text::bigint)
on conflict (id) do update
set backfills = excluded.backfills
returning d.backfills
