-- The ids of a page of $2 schedules after id $1.
select id
from prescient.schedule
where id > $1
order by id
limit $2
