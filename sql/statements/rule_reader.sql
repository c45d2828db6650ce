-- Names the session's login, and tells whether it is a member of a role $1. Returns the statements
-- that give the role what it lacks to read the columns $3 of a table $2. An empty role is the current
-- one. The columns are quoted.
-- Called by internal/rule.page.denied.
-- Called by internal/rulestore.Store.mayPlan.
select
    quote_ident(session_user) as login,
    pg_has_role(session_user, r.oid, 'member') as member,
    array_remove(array[
        case
            when not has_schema_privilege(r.oid, n.oid, 'usage')
                then format('grant usage on schema %I to %I', n.nspname, r.rolname)
        end,
        case
            when exists (
                select
                from pg_attribute a
                where a.attrelid = c.oid and not a.attisdropped
                    and '"' || replace(a.attname, '"', '""') || '"' = any ($3::text[])
                    and not has_column_privilege(r.oid, c.oid, a.attnum, 'select')
            ) then format('grant select on %I.%I to %I', n.nspname, c.relname, r.rolname)
        end
    ], null) as grants
from pg_roles r
cross join pg_class c
join pg_namespace n on n.oid = c.relnamespace
where r.rolname = coalesce(nullif($1::text, ''), current_user)
    and array[n.nspname::text, c.relname::text] = parse_ident($2)
