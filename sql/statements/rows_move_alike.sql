-- Moves rows of a claim of which all is alike.
-- Called by slots/internal/record.Writer.recordAlike.
select finished, rescheduled, failed
from prescient.move_rows_alike($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
