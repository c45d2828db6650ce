-- Ends the draining of the store.
-- Called by jobs/stores.Set.Undrain.
update prescient.setting
set draining_since = null,
    draining_by = null
where draining_since is not null
returning 1
