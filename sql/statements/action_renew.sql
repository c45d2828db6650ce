-- Says that the action with the id $1 goes on.
-- Called by cmd/internal/serve/board.operator.keepRenewing.
select prescient.renew_action($1)
