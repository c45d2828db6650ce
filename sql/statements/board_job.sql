-- What became of the rows of job $1 in the slots from $2 up to but not including $3 that it had rows in, the newest first. took: from the
-- opening of the slot to its last row, in microseconds; null of a slot that was caught up on.
select
    r.slot, s.planned, s.finished, s.rescheduled, s.failed, s.late, (extract(epoch from s.spent) * 1000000)::bigint as spent,
    coalesce(s.error, '') as error,
    case when r.kind = 'run' then greatest(extract(epoch from s.last_at - r.opened_at) * 1000000, 0)::bigint end as took
from prescient.slot_run r
join prescient.slot_job s on s.slot = r.slot and s.job = prescient.number_of($1)
where r.slot >= $2 and r.slot < $3
order by r.slot desc
