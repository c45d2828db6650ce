-- Reports whether this role sees the activity of other roles' sessions.
-- Called by cmd/internal/doctor.sessions.
select pg_has_role(current_user, 'pg_read_all_stats', 'usage')
