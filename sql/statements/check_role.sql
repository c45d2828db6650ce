-- The role that a session has taken on, before a check may take on another; none.
-- Called by slots/internal/txn.Checker.askRole.
select current_setting('role')
