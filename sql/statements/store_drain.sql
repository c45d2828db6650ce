-- Marks the store as drained: its rows are to move to other stores.
-- Called by jobs/stores.Set.Drain.
update prescient.setting
set draining_since = statement_timestamp(),
    draining_by = $1
where draining_since is null
returning 1
