-- Records which session has locked rows of slot $1 for long.
-- Called by slots/internal/db.RowWait.LogHolder.
update prescient.slot_run
set waited_for = $2
where slot = $1
