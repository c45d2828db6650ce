-- Begins a backfill of a schedule, and so ends an earlier one, which finds another number. The
-- number is that of the transaction, so a schedule that was deleted and created again never repeats
-- one.
-- Called by jobs/schedule.backfill.begin.
insert into prescient.schedule_state as d (id, dropped, backfills)
values ($1, 0, pg_current_xact_id()::text::bigint)
on conflict (id) do update
set backfills = excluded.backfills
returning d.backfills
