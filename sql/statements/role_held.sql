-- Returns the login of the session, whether role $1 exists, and whether the login has its rights. It
-- needs no right on the schema.
-- Called by sql.ReadHolder.
select current_user::text, r.oid is not null, coalesce(pg_has_role(r.oid, 'usage'), false)
from (select $1::text as name) as asked
left join pg_roles r on r.rolname = asked.name
