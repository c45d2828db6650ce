-- Gives a store its identifier if it has none.
-- Called by jobs/stores.mover.identify.
update prescient.setting
set store = $1
where store is null
returning 1
