-- Returns what the catalog says about a table ($2) of a schema ($1), and which rights the login has. Null: a
-- schema of the search path. $3 is the name of the schema of triggers' functions, and of the role that owns them if roles
-- were made. $4 is the name of the operators' role. It needs no right on the schema. No row: there is no such table.
-- uniques: the numbers of the columns that identify a row together, of each unique index, that of the primary key first.
-- Called by internal/rulestore.resolver.findTable.
select
    c.oid,
    format('%I.%I', n.nspname, c.relname) as relation,
    quote_ident(n.nspname) as namespace,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relispartition as partition,
    c.relpersistence::text as persistence,
    c.relkind <> 'p' and exists (select from pg_inherits i where i.inhparent = c.oid) as parent,
    coalesce(pg_get_partkeydef(c.oid), '') as partition_key,
    array(
        select array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ' ')
        from pg_index i
        where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null
        order by i.indisprimary desc, i.indexrelid
    ) as uniques,
    quote_ident(current_user) as login,
    quote_ident(current_database()) as database,
    has_database_privilege(current_database(), 'temporary') as may_copy,
    has_schema_privilege(c.relnamespace, 'usage') as may_use,
    has_table_privilege(c.oid, 'select') as may_read,
    has_table_privilege(c.oid, 'trigger') as may_trigger,
    array(
        select format('%I.%I', pn.nspname, p.relname)
        from pg_partition_tree(c.oid) as part
        join pg_class p on p.oid = part.relid
        join pg_namespace pn on pn.oid = p.relnamespace
        where part.relid <> c.oid and not has_table_privilege(part.relid, 'trigger')
        order by 1
    ) as untriggered,
    -- Granted to the role itself: another schema may have made it, and PUBLIC has every right after a restore without rights.
    exists (
        select
        from pg_proc p
        cross join aclexplode(p.proacl) as granted
        join pg_roles r on r.oid = granted.grantee
        where p.proname = 'rule_wait'
            and p.pronamespace = to_regnamespace(rtrim('prescient.', '.')) -- needs no right on the schema
            and r.rolname = $3
    ) as roles,
    exists (select from pg_roles r where r.rolname = $4 and pg_has_role(r.oid, 'usage')) as operates,
    coalesce(pg_get_userbyid(f.nspowner), '')::text as functions_owner,
    f.nspowner in (select r.oid from pg_roles r where r.rolsuper or r.rolname = current_user) as functions_own,
    case
        when f.oid is null then has_database_privilege(current_database(), 'create')
        else has_schema_privilege(f.oid, 'usage') and has_schema_privilege(f.oid, 'create')
    end as may_make
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_namespace f on f.nspname = $3
where c.relname = $2
    and case when $1::text is null then pg_table_is_visible(c.oid) else n.nspname = $1 end
