-- Closes a slot. See the function close_slot.
-- Called by slots/internal/claim.Session.Close.
-- Called by slots/internal/record.Recorder.recordUnlocked.
select state
from prescient.close_slot($1, $2, $3)
