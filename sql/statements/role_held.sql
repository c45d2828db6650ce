-- Returns the login of the session, whether role $1 exists, and whether the login has its rights. It
-- also returns the owner of schema $2, '' without the schema, whether the login has the rights of that
-- owner, the name of the database, and whether the login may create in it. It needs no right on the
-- schema.
-- Called by internal/pg.ReadHolder.
select
    current_user::text, r.oid is not null, coalesce(pg_has_role(r.oid, 'usage'), false),
    coalesce(pg_get_userbyid(n.nspowner)::text, ''), coalesce(pg_has_role(n.nspowner, 'usage'), false),
    current_database()::text, has_database_privilege(current_database(), 'create')
from (select $1::text as name, $2::text as schema) as asked
left join pg_roles r on r.rolname = asked.name
left join pg_namespace n on n.nspname = asked.schema
