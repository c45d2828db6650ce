-- Counts events that a run or a change of the schedule has dropped. It also keeps what the ended
-- row of a schedule had: runs and, unless it is '', the last published instant.
-- Called by jobs/schedule.stateChanges.write.
insert into prescient.schedule_state as d (id, dropped, runs, last_at, dropped_at)
select id, dropped, runs, nullif(last_at, '')::timestamptz, case when dropped > 0 then clock_timestamp() end
from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[]) as g (id, dropped, runs, last_at)
order by id collate "C"
on conflict (id) do update
set dropped = d.dropped + excluded.dropped,
    runs = excluded.runs,
    last_at = coalesce(excluded.last_at, d.last_at),
    dropped_at = coalesce(excluded.dropped_at, d.dropped_at)
