-- Returns the newest $1 actions, behind that of a number ($2); 0: of all.
-- Called by cmd/internal/serve/board.Board.Actions.
select id, at, ended_at, by_role, actor, what, target, plan, row_count, slots, schedules, events, outcome, result
from prescient.action
where $2 = 0 or id < $2
order by id desc
limit $1
