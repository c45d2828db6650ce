-- Whether this role sees what other roles' sessions do.
select pg_has_role(current_user, 'pg_read_all_stats', 'usage')
