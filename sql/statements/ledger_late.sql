-- The newest slots from $1 to $2 in which checks began later than the sla of their job; at the most $3.
select s.slot, coalesce(j.name, '#' || s.job) as name, s.finished + s.rescheduled + s.failed as checked, s.late
from prescient.slot_job s
left join prescient.job j on j.job = s.job
where s.slot between $1 and $2 and s.late > 0
order by s.slot desc, name
limit $3
