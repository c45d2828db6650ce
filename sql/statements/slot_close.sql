-- Closes a slot. See the function close_slot.
-- Called by slots/internal/record.Recorder.recordAll.
-- Called by slots/internal/session.Session.Close.
select state
from prescient.close_slot($1, $2, $3)
