-- Records how an action has ended that did not end at once. $1 is its id.
-- Called by cmd/internal/serve/board.operator.recordEnd.
select prescient.end_action($1, $2, $3)
