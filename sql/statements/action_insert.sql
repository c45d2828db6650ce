-- Records an action of an operator, with its outcome so far ($9) and its result ($10).
-- Called by cmd/internal/serve/board.operator.record.
select id, at, finished_at, by_role
from prescient.record_action($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
