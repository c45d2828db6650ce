-- Moves rows of a claim to later slots.
-- Called by slots/internal/record.Writer.moveRows.
select finished, rescheduled, failed
from prescient.move_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
