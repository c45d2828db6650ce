-- Returns the newest $1 actions.
-- Called by cmd/internal/serve/board.Board.Actions.
select id, at, ended_at, by_role, actor, what, target, plan, row_count, slots, schedules, events, outcome, result
from prescient.action
order by id desc
limit $1
