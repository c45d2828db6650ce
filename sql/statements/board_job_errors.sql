-- Returns the newest $4 slots from $2 up to but not including $3 in which checks of job $1 failed, with how many, and the
-- error of one of them.
-- Called by cmd/internal/serve/board.Job.readRange.
select r.slot, (s.failed + coalesce(t.failed, 0))::bigint as failed, coalesce(t.error, s.error) as error
from prescient.slot_run r
join prescient.slot_job s on s.slot = r.slot and s.slot >= $2 and s.slot < $3 and s.job = (select prescient.find_job($1))
left join lateral (
    select sum(t.failed) as failed, min(t.error) as error
    from prescient.slot_progress t
    where r.state = 'open' and t.slot = r.slot and t.job = s.job
) as t on true
where r.slot >= $2 and r.slot < $3 and coalesce(t.error, s.error) is not null
order by r.slot desc
limit $4
