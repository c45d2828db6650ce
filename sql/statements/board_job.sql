-- Sums up the slots from $2 up to but not including $3 in which job $1 had rows, in cells of $4 seconds, newest first.
-- Counts of open slots are what their runners have recorded so far.
-- took: the longest of them, from the opening of the slot to its last row of the job, in microseconds; see the function
-- slot_took. worked: the sum of these. Null: no row was recorded.
-- Called by cmd/internal/serve/board.Job.readCells.
select
    date_bin($4 * interval '1 second', r.slot, $2) as cell,
    count(*) as slots,
    sum(s.planned)::bigint as planned,
    sum(s.finished + coalesce(t.finished, 0))::bigint as finished,
    sum(s.rescheduled + coalesce(t.rescheduled, 0))::bigint as rescheduled,
    sum(s.failed + coalesce(t.failed, 0))::bigint as failed,
    sum(s.late + coalesce(t.late, 0))::bigint as late,
    (extract(epoch from sum(s.spent + coalesce(t.spent, '0'))) * 1000000)::bigint as spent,
    max(o.took) as took,
    sum(o.took)::bigint as worked
from prescient.slot_run r
join prescient.slot_job s on s.slot = r.slot and s.slot >= $2 and s.slot < $3 and s.job = (select prescient.find_job($1))
left join lateral (
    select
        sum(t.finished) as finished, sum(t.rescheduled) as rescheduled, sum(t.failed) as failed, sum(t.late) as late, sum(t.spent) as spent,
        max(t.recorded_at) as last_at
    from prescient.slot_progress t
    where r.state = 'open' and t.slot = r.slot and t.job = s.job
) as t on true
left join lateral (
    select prescient.slot_took(
        r.state, r.worked, r.opened_at, r.resumed_at, r.finished_at, greatest(s.last_at, t.last_at), false
    ) as took
) as o on greatest(s.last_at, t.last_at) is not null
where r.slot >= $2 and r.slot < $3
group by cell
order by cell desc
