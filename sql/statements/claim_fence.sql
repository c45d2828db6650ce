-- Called by slots/internal/record.Recorder.recordUnlocked.
-- Called by slots/internal/record.Writer.AddLocked.
select prescient.fence($1, $2, $3, $4, $5)
