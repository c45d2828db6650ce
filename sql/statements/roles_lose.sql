-- Returns the roles that own tables of schema $1 and are no members of its owner role ($2): they
-- lose the tables when the owner role gets them. The caller becomes a member. Superusers lose
-- nothing.
-- Called by internal/pg.RolesLosing.
select distinct r.rolname::text as name
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_roles r on r.oid = c.relowner
where n.nspname = $1
    and c.relname in ('setting', 'future_job')
    and not r.rolsuper
    and r.rolname not in ($2, current_user)
    and (to_regrole($2) is null or not pg_has_role(r.oid, to_regrole($2), 'usage'))
order by name
