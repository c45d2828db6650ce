-- The role that a session has taken on, before a check may take on another; none.
select current_setting('role')
