-- The names of jobs that checks were ever asked for, up to $1.
select name
from prescient.job
order by name
limit $1
