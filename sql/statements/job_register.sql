-- Returns the numbers of the jobs that a run knows, and records that it knows them. With $3, it
-- knows the rules, too.
-- Called by slots.Runner.register.
select name, job
from prescient.register_jobs($1, $2, $3)
