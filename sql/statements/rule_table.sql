-- Returns what the catalog says about a table ($2) of a schema ($1), and which rights the login has. Null: a
-- schema of the search path. $3 is the role that owns the functions of triggers, if it may call prescient's.
-- It needs no right on the schema. No row: there is no such table.
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
    quote_ident(current_user) as login,
    quote_ident(current_database()) as database,
    has_database_privilege(current_database(), 'temporary') as may_copy,
    has_schema_privilege(c.relnamespace, 'usage') as may_use,
    k.name is null
        and (select r.rolsuper from pg_roles r where r.rolname = current_user)
        and not (select o.rolsuper from pg_roles o where o.oid = c.relowner) as exposes,
    coalesce(quote_ident(k.name), '') as function_owner,
    coalesce(has_schema_privilege(k.oid, c.relnamespace, 'usage'), true) as owner_may_use,
    coalesce(has_schema_privilege(k.oid, c.relnamespace, 'create'), true) as owner_may_create,
    pg_get_userbyid(c.relowner) as owner,
    has_schema_privilege(c.relnamespace, 'create') as may_create,
    has_table_privilege(c.oid, 'select') as may_read,
    has_table_privilege(c.oid, 'trigger') as may_trigger
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join (
    select r.oid, r.rolname::text as name
    from pg_roles r
    where r.rolname = $3
        and has_function_privilege(r.oid, 'prescient.rule_wait(text, text, text, timestamptz, jsonb, timestamptz)', 'execute')
) as k on true
where c.relname = $2
    and case when $1::text is null then pg_table_is_visible(c.oid) else n.nspname = $1 end
