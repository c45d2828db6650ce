-- Sets the statements of schedules, before schedule_update. They are given as arrays, in which '' and 0 are null.
-- A runner may not write sql and role: the login of the runs executes the statement.
-- Called by jobs/schedule.Store.setActs.
update prescient.schedule s
set sql = nullif(g.sql, ''),
    role = nullif(g.role, ''),
    timeout = nullif(g.timeout, 0) * interval '1 second',
    job_exec = nullif(g.job_exec, ''),
    notify = nullif(g.notify, ''),
    text = nullif(g.text, '')
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[])
    as g (id, sql, role, timeout, job_exec, notify, text)
where s.id = g.id collate "C"
