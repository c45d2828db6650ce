-- Returns at most $2 jobs that had rows in slot $1, with what became of these. Counts of an open
-- slot are what its runners have recorded so far.
-- Called by cmd/internal/serve/board.readSlotJobs.
with tally as (
    select
        t.job, sum(t.finished) as finished, sum(t.rescheduled) as rescheduled, sum(t.failed) as failed, sum(t.late) as late,
        sum(t.spent) as spent, min(t.error) as error, min(t.recorded_at) as first_at, max(t.recorded_at) as last_at
    from prescient.slot_progress t
    where t.slot = $1
    group by t.job
)
select
    coalesce(j.name, '#' || s.job) as name, s.planned,
    (s.finished + coalesce(t.finished, 0))::bigint as finished,
    (s.rescheduled + coalesce(t.rescheduled, 0))::bigint as rescheduled,
    (s.failed + coalesce(t.failed, 0))::bigint as failed,
    (s.late + coalesce(t.late, 0))::bigint as late,
    coalesce(t.error, s.error, '') as error,
    least(s.first_at, t.first_at) as first_at,
    greatest(s.last_at, t.last_at) as last_at,
    (extract(epoch from s.spent + coalesce(t.spent, '0')) * 1000000)::bigint as spent
from prescient.slot_job s
left join prescient.job j on j.job = s.job
left join tally t on t.job = s.job
where s.slot = $1
order by s.planned desc, name
limit $2
