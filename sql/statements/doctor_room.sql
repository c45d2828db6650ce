-- Returns the limit that leaves this role the fewest further connections, and how many it leaves.
-- Called by cmd/internal/doctor.connections.
select name, room
from (
    select
        'max_connections of the server' as name,
        current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
            - (select count(*) from pg_stat_activity where datid is not null) as room
    union all
    select
        'the connection limit of database ' || d.datname,
        d.datconnlimit - (select count(*) from pg_stat_activity a where a.datid = d.oid)
    from pg_database d
    where d.datname = current_database() and d.datconnlimit >= 0
    union all
    select
        'the connection limit of role ' || r.rolname,
        r.rolconnlimit - (select count(*) from pg_stat_activity a where a.usesysid = r.oid)
    from pg_roles r
    where r.rolname = session_user and r.rolconnlimit >= 0
) as limits
order by room
limit 1
