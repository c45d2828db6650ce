-- Called by slots/internal/record.Recorder.recordAll.
-- Called by slots/internal/statement.Writer.AddLocked.
select prescient.fence($1, $2, $3, $4, $5)
