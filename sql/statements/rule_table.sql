-- Returns what the catalog says about a table ($1), as the login finds it. No row: there is none.
-- Called by jobs/rule/rulestore.resolver.findTable.
select
    c.oid,
    format('%I.%I', n.nspname, c.relname) as relation,
    quote_ident(n.nspname) as namespace,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relispartition as partition,
    c.relpersistence::text as persistence,
    c.relkind <> 'p' and exists (select from pg_inherits i where i.inhparent = c.oid) as parent,
    has_table_privilege(c.oid, 'trigger') as may_trigger,
    has_schema_privilege(c.relnamespace, 'create') as may_create,
    has_table_privilege(c.oid, 'select') as may_read
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass($1)
