-- Records the outcome of one row, which is a literal of the type row_outcome.
-- Called by slots/internal/record.Writer.recordRow.
select prescient.record_row($1)
