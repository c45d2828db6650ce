-- Returns the tables with the names $2 in schema $1, and the default partition of history, whose row
-- security is on. That of a month of history does not count, because every statement names its parent.
-- The owner of a table is empty if the session has the rights of that role.
-- Called by cmd/internal/doctor.rowSecurity.
select
    c.relname as name,
    case when pg_has_role(c.relowner, 'usage') then '' else pg_get_userbyid(c.relowner)::text end as owner
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1
    and c.relkind in ('r', 'p')
    and (c.relrowsecurity or c.relforcerowsecurity)
    and (c.relname = any ($2) or c.relname = 'future_job_history_rest')
order by c.relname
