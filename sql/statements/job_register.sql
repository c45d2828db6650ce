-- The numbers of the jobs that a run knows, which it writes down.
select name, job
from prescient.register_jobs($1, $2)
