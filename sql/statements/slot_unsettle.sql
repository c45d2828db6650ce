-- Records that rows were left in a slot behind its cursors, so that the runner that closes it looks
-- for them.
-- Called by slots/internal/record.Recorder.recordUnlocked.
update prescient.slot_run
set settled = false
where slot = $1
returning slot
