-- Returns the last slot from $2 up to but not including $3 in which job $1 had rows, if there is one.
-- Called by cmd/internal/serve/board.Job.readRange.
select r.slot
from prescient.slot_run r
join prescient.slot_job s on s.slot = r.slot and s.slot >= $2 and s.slot < $3 and s.job = (select prescient.find_job($1))
where r.slot >= $2 and r.slot < $3
order by r.slot desc
limit 1
