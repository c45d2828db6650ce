-- Returns the id of the last action of kind $1 on target $2; 0 if there is none.
-- Called by cmd/internal/serve/board.operator.plan.
select coalesce(max(id), 0) as last
from prescient.action
where what = $1 and target = $2
