-- Returns the newest $1 actions, behind that of a number ($2); 0: of all. last_sign is
-- null, except for an action that runs by its record, and that was not renewed for $3 seconds.
-- Called by cmd/internal/serve/board.Board.Actions.
select id, at, finished_at, by_role, actor, what, target, plan, row_count, slots, schedules, events, outcome, result,
    case
        when outcome = 'running'
            and seen_at < clock_timestamp() - $3::double precision * interval '1 second' then seen_at
    end as last_sign
from prescient.action
where $2 = 0 or id < $2
order by id desc
limit $1
