-- When a run last knew a job, to the hour.
select registered_at
from prescient.job
where name = $1 and registered_at is not null
