-- What rows_finish does, for Citus.
-- Called by slots/internal/record.Writer.finishRows.
select finished, rescheduled, failed
from prescient.finish_rows_apart($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
