-- Tells whether there is a role ($1), and which of the columns ($3) of a table ($2) it may not read.
-- Called by internal/rulestore.Store.unready.
-- Called by internal/rulestore.resolver.role.
select
    r.oid is not null as there,
    coalesce(array(
        select c
        from unnest($3::text[]) as c
        where r.oid is not null
            and not (has_schema_privilege(r.oid, (select k.relnamespace from pg_class k where k.oid = $2::oid), 'usage')
                and has_column_privilege(r.oid, $2::oid, c, 'select'))
    ), '{}') as unread
from (values (1)) as one
left join pg_roles r on r.rolname = $1
