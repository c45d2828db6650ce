-- Returns a role that owns schema $1, or the table setting in it, unless it is a superuser, the owner of the
-- database, the login, or one of the roles $2 and $3; '' if no such role does. It needs no right on the schema.
-- The owner of the database alone is a member of pg_database_owner, which owns the schema public of a new database.
-- Called by internal/pg.Stranger.
select coalesce(min(r.rolname::text), '')
from pg_catalog.pg_roles r
where r.oid in (
        select n.nspowner from pg_catalog.pg_namespace n where n.nspname = $1
        union all
        select c.relowner
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = $1 and c.relname = 'setting'
    )
    and not r.rolsuper
    and r.rolname::text not in (current_user::text, 'pg_database_owner', $2::text, $3::text)
    and r.oid <> (select d.datdba from pg_catalog.pg_database d where d.datname = current_database())
