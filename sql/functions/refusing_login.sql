-- Returns a login that may run slots, if neither it nor another one may take a role. Null: one may, or it is not known
-- which logins run. A superuser takes every role and says nothing, unless it is the caller, who may be the login of the
-- runs.
-- Called by schedule_mistake, and by the statement schedule_refusing.
create or replace function prescient.refusing_login(role text)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select case when not bool_or(l.takes) then min(l.name) filter (where l.runs) end
    from (
        select
            l.rolname::text as name,
            not l.rolsuper and has_table_privilege(l.oid, 'prescient.future_job', 'insert') as runs,
            pg_has_role(l.oid, r.oid, case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end) as takes
        from pg_roles r
        join pg_roles l on l.rolcanlogin
        where r.rolname = refusing_login.role
    ) as l
    where l.runs or l.name = session_user
$$;
revoke all on function prescient.refusing_login(text) from public;
