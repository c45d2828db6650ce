-- Returns the schedules whose statement runs as a role that this login may not take, up to 100, and whether the role
-- exists.
-- Called by cmd/internal/doctor.schedules.
select s.id, s.role, r.oid is not null as made, current_user::text as login
from prescient.schedule s
left join pg_roles r on r.rolname = s.role
where s.role is not null
    and not coalesce(pg_has_role(r.oid, case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end), false)
order by s.id
limit 100
