-- Returns the ids of $2 schedules after id $1.
-- Called by jobs/schedule.applyCall.notGiven.
select id
from prescient.schedule
where id > $1
order by id
limit $2
