-- Returns the slots from $2 up to but not including $3 in which job $1 had rows, newest first, with
-- what became of the rows. Counts of open slots are what their runners have recorded so far.
-- took: from the opening of the slot to its last row of the job, in microseconds; see the function
-- slot_took. Null: no row was recorded.
-- Called by cmd/internal/serve/board.Job.readSlots.
select
    r.slot, s.planned,
    (s.finished + coalesce(t.finished, 0))::bigint as finished,
    (s.rescheduled + coalesce(t.rescheduled, 0))::bigint as rescheduled,
    (s.failed + coalesce(t.failed, 0))::bigint as failed,
    (s.late + coalesce(t.late, 0))::bigint as late,
    (extract(epoch from s.spent + coalesce(t.spent, '0')) * 1000000)::bigint as spent,
    coalesce(t.error, s.error, '') as error,
    case when greatest(s.last_at, t.last_at) is not null then prescient.slot_took(
        r.state, r.worked, r.opened_at, r.resumed_at, r.finished_at, greatest(s.last_at, t.last_at), false
    ) end as took
from prescient.slot_run r
join prescient.slot_job s on s.slot = r.slot and s.job = (select prescient.find_job($1))
left join lateral (
    select
        sum(t.finished) as finished, sum(t.rescheduled) as rescheduled, sum(t.failed) as failed, sum(t.late) as late, sum(t.spent) as spent,
        min(t.error) as error, max(t.recorded_at) as last_at
    from prescient.slot_progress t
    where t.slot = r.slot and t.job = s.job
) as t on r.state = 'open'
where r.slot >= $2 and r.slot < $3
order by r.slot desc
