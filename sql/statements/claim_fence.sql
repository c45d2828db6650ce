-- Called by slots/internal/record.Recorder.recordAll.
-- Called by slots/internal/record.Recorder.recordThere.
-- Called by slots/internal/statement.Writer.AddTx.
select prescient.fence($1, $2, $3, $4, $5)
