-- Returns the first 1,000 of the schedules that were paused before $1, those that have been paused for longest first.
-- Called by slots/ledger.Ledger.PausedSchedules.
select
    id, crontab, timezone, anchor, extract(epoch from spread)::bigint as spread, starts_at, ends_at, exclude, paused_at, coalesce(paused_by, '') as paused_by
from prescient.schedule
where paused and paused_at < $1
order by paused_at, id
limit 1000
