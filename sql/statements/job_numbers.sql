-- Returns the numbers of jobs, and gives new names a number. It goes in the order of the names, so
-- that two calls never deadlock.
-- Called by jobs.copier.number.
select name, prescient.ensure_job(name) as job
from (select name from unnest($1::text[]) as g (name) group by name order by name collate "C") as names
