-- Makes this mover the only one that may take rows away. It waits for a mover that is doing so.
-- Called by jobs/stores.mover.begin.
update prescient.setting
set mover = $1
returning 1
