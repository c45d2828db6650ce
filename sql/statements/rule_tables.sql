-- Returns the tables and views of applications, for a message about one that is not there.
-- Called by internal/rulestore.Store.otherTable.
select n.nspname::text as schema, c.relname::text as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not c.relispartition
    and n.nspname <> 'information_schema'
    and n.nspname !~ '^pg_'
order by 1, 2
limit 10000
