-- The numbers of jobs, which new names are given. In the order of their names, so that two calls never wait for each
-- other in a circle.
select name, prescient.job_number(name) as job
from (select distinct name from unnest($1::text[]) as g (name) order by name) as names
